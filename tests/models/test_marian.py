"""The binary format, read back from a file that was written here by its description."""

import struct

import numpy as np

from attention_in_detail.models._marian import read_marian


def written(entries):
    """A file with these entries: name, type, shape, data."""
    names = [name.encode() + b"\0" for name, *_ in entries]
    head = struct.pack("<2Q", 1, len(entries))
    for name, (_, kind, shape, data) in zip(names, entries, strict=True):
        head += struct.pack("<4Q", len(name), kind, len(shape), len(data))
    head += b"".join(names)
    for _, _, shape, _ in entries:
        head += struct.pack(f"<{len(shape)}i", *shape)
    padding = -(len(head) + 8) % 256
    head += struct.pack("<Q", padding) + bytes(padding)
    return head + b"".join(data for *_, data in entries)


def test_what_is_written_is_read():
    row = np.array([[1.5, -2.0]], "<f4")
    whole = np.arange(-3, 3, dtype=np.int8)
    unit = np.array([2.0, 0.0], "<f4").tobytes()  # the rest is padding
    content = written(
        [
            ("row", 0x404, (1, 2), row.tobytes()),
            ("table", 0x4101, (3, 2), whole.tobytes() + unit),
            ("matrix", 0x4101, (3, 2), whole.tobytes() + unit),
            ("matrix_QuantMultA", 0x4101, (1, 1), bytes(8)),
            ("special:model.yml", 0x101, (4,), b"a: b"),
        ]
    )
    found = read_marian(content, plain=("table",))
    assert list(found) == ["row", "table", "matrix"]
    assert all(x.dtype == np.float32 for x in found.values())
    assert found["row"].tolist() == [[1.5, -2]]
    assert found["table"].tolist() == [[-1.5, -1], [-0.5, 0], [0.5, 1]]
    assert found["matrix"].tolist() == [[-1.5, 0], [-1, 0.5], [-0.5, 1]]
