"""Make the re-execution of notebooks strict: what nbval lets pass, fails here.

nbval compares texts. Beyond that, this file refuses a cell that was never run, a cell that asks to
be left out, a figure whose pixels have moved, and a text alternative that has changed.
"""

from __future__ import annotations

import base64
import io

try:
    from nbval.plugin import IPyNbCell
except ImportError:  # the unit tests need no nbval
    IPyNbCell = None

# Root mean square over all channels, of 255. One drawn line in a small figure is above 5; the same
# figure drawn twice by one release of matplotlib is at 0.
RMS_LIMIT = 0.5
# Options by which a cell can ask nbval not to compare, set by a tag or by a comment.
ESCAPES = {"skip": True, "check": False}


def _images(outputs):
    """(format, encoded image, what the output's metadata says of it) for each image."""
    for output in outputs:
        for kind in ("image/png", "image/jpeg"):
            if kind in output.get("data", {}):
                yield (
                    kind,
                    output["data"][kind],
                    output.get("metadata", {}).get(kind, {}),
                )


def _pixels(encoded):
    import numpy as np
    from PIL import Image

    text = encoded if isinstance(encoded, str) else "".join(encoded)
    with Image.open(io.BytesIO(base64.b64decode(text))) as image:
        return np.asarray(image.convert("RGBA"), dtype=float)


def image_difference(new_outputs, stored_outputs):
    """The first difference between the images of two lists of outputs, in one line, or None."""
    new, stored = list(_images(new_outputs)), list(_images(stored_outputs))
    if len(new) != len(stored):
        return f"{len(stored)} figures are stored, {len(new)} were drawn"
    for number, (drawn, kept) in enumerate(
        zip(new, stored, strict=True), start=1
    ):
        if drawn[0] != kept[0]:
            return f"figure {number} is stored as {kept[0]} and was drawn as {drawn[0]}"
        if drawn[2] != kept[2]:
            return f"figure {number}: stored metadata {kept[2]}, now {drawn[2]}"
        ours, theirs = _pixels(drawn[1]), _pixels(kept[1])
        if ours.shape != theirs.shape:
            return f"figure {number}: stored size {theirs.shape[:2]}, now {ours.shape[:2]}"
        rms = float(((ours - theirs) ** 2).mean() ** 0.5)
        if rms > RMS_LIMIT:
            return f"figure {number} differs from the stored one: RMS {rms:.2f} > {RMS_LIMIT}"
    return None


def refusal(cell, options):
    """Why a code cell cannot be compared at all, in one line; None if it can."""
    if any(
        option in options and options[option] is value
        for option, value in ESCAPES.items()
    ):
        return (
            "The cell asks not to be compared; every cell of this book is"
        )
    if cell.execution_count is None:
        return (
            "The cell was never run: store its output with `make notebooks`"
        )
    return None


if IPyNbCell is not None:
    _run, _compare = IPyNbCell.runtest, IPyNbCell.compare_outputs

    def _run_if_stored(self):
        reason = refusal(self.cell, self.options)
        if reason:
            self.raise_cell_error(reason)
        _run(self)

    def _compare_with_images(self, test, ref, skip_compare=None):
        if not _compare(self, test, ref, skip_compare):
            return False
        difference = image_difference(test, ref)
        if difference:
            self.comparison_traceback.append(difference)
        return difference is None

    IPyNbCell.runtest = _run_if_stored
    IPyNbCell.compare_outputs = _compare_with_images
