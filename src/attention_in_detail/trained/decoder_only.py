"""Train the decoder of the chapter on models of today and store it.

    python -m attention_in_detail.trained.decoder_only [folder]

Needs torch, and a minute. It prints the hash that goes into ``SHA256`` of
:mod:`attention_in_detail.trained`. The weights are those of seed 0, rounded to float16.
"""

import hashlib
import sys
from pathlib import Path

from attention_in_detail.insights.decoder_only import train_decoder_only
from attention_in_detail.trained._files import content_of
from attention_in_detail.trees import map_arrays

__all__ = ["main"]


def main(folder: Path, **options: int) -> Path:
    """Write ``decoder_only.npz`` into ``folder`` and return where it is."""
    parameters = train_decoder_only(seed=0, report=50, **options)
    content = content_of(map_arrays(parameters, lambda x: x.numpy()))
    file = folder / "decoder_only.npz"
    file.write_bytes(content)
    print(
        f"{file.name}: {len(content)} bytes, "
        f"sha256 {hashlib.sha256(content).hexdigest()}"
    )
    return file


if __name__ == "__main__":
    main(Path(*sys.argv[1:2]) if sys.argv[1:] else Path(__file__).parent)
