"""Train the model of number words and store it.

    python -m attention_in_detail.trained.number_words [folder]

Needs torch, and a minute. It prints the hash that goes into ``SHA256`` of
:mod:`attention_in_detail.trained`. The weights are those of seed 0, rounded to float16.
"""

import hashlib
import sys
from pathlib import Path

from attention_in_detail.tasks.training import (
    numpy_parameters,
    train_number_words,
)
from attention_in_detail.trained._files import content_of

__all__ = ["main"]


def main(folder: Path, **options: int) -> Path:
    """Write ``number_words.npz`` into ``folder`` and return where it is."""
    model, _ = train_number_words(
        seed=0, dtype="float64", report=print, **options
    )
    content = content_of(numpy_parameters(model))
    file = folder / "number_words.npz"
    file.write_bytes(content)
    print(
        f"{file.name}: {len(content)} bytes, "
        f"sha256 {hashlib.sha256(content).hexdigest()}"
    )
    return file


if __name__ == "__main__":
    main(Path(*sys.argv[1:2]) if sys.argv[1:] else Path(__file__).parent)
