"""Make the re-execution of notebooks strict: what nbval lets pass, fails here.

nbval compares texts. Beyond that, this file refuses a cell that was never run, a cell that asks to
be left out, a figure whose pixels have moved on a light or on a dark page, and a text alternative that has changed.

In one place it is milder. A viewer of attention holds weights rounded to hundredths, and its figure,
inside its HTML. A weight half-way between two hundredths can fall to either side, since the last
digits of a computation differ between processors. So a few weights of a viewer may be off by one
hundredth, and the figure inside it is compared by its pixels, as every other is.

`make test-oldest` and `make test-newest` set VERSIONS, and run at other versions than the pinned ones.
Then neither the pixels of figures nor their sizes are compared, since each release of matplotlib draws
others; texts and text alternatives are. With another PyTorch than the pinned one a training takes another course: what
is printed from the first training of a chapter on may then be off by a tenth in its numbers, while its
verdicts ("at least .98: True") stay. Anywhere else VERSIONS is refused.
"""

from __future__ import annotations

import base64
import copy
import io
import os
import re
import sys
from importlib import metadata
from pathlib import Path

import pytest

try:
    from nbval.plugin import IPyNbCell
except ImportError:  # the unit tests need no nbval
    IPyNbCell = None

# Root mean square over all channels, of 255. One drawn line in a small figure is above 5; the same
# figure drawn twice by one release of matplotlib is at 0.
RMS_LIMIT = 0.5
# The colours of a figure on a dark page, in its metadata.
PALETTE = "dark_palette"
# Options by which a cell can ask nbval not to compare, set by a tag or by a comment.
ESCAPES = {"skip": True, "check": False}
# A viewer: its weights, one byte each, and its figure.
VIEWER = re.compile(
    r'(<attention-viewer [^>]*?\bweights=")([^"]*)("[^>]*>\s*<img src="data:image/png;base64,)([^"]*)(?=")'
)
# The environments in which VERSIONS may be set, each to the word in its name.
ELSEWHERE = {"oldest": ".venv-oldest", "newest": ".venv-newest"}
# What trains a model.
TRAINING = (
    "fit_swapped",
    "learn_gates",
    "train_head",
    "train_network",
    "train_number_words",
    "train_reader",
    "tune_with_gates",
)
NUMBER = re.compile(r"-?\d+(?:[.,]\d+)*")
# How large the figure inside a viewer is shown.
SIZE = re.compile(r' width="\d+" height="\d+"')
# How many weights of a viewer may be off: two, and one more for each thousand.
FEW = 1000


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


def _pixels(encoded, palette=None):
    """The pixels of an image, in the colours of another palette if one is given."""
    import numpy as np
    from PIL import Image

    text = encoded if isinstance(encoded, str) else "".join(encoded)
    with Image.open(io.BytesIO(base64.b64decode(text))) as image:
        if palette is not None:
            image.load()
            image.putpalette(base64.b64decode(palette))
        return np.asarray(image.convert("RGBA"), dtype=float)


def image_difference(new_outputs, stored_outputs, pixels=True):
    """The first difference between the images of two lists of outputs, in one line, or None."""
    new, stored = list(_images(new_outputs)), list(_images(stored_outputs))
    if len(new) != len(stored):
        return f"{len(stored)} figures are stored, {len(new)} were drawn"
    for number, (drawn, kept) in enumerate(
        zip(new, stored, strict=True), start=1
    ):
        if drawn[0] != kept[0]:
            return f"figure {number} is stored as {kept[0]} and was drawn as {drawn[0]}"
        # Another release of matplotlib may set its letters wider, and so make a figure higher.
        said, known = (
            {
                key: value
                for key, value in one[2].items()
                if key == "alt" or (pixels and key != PALETTE)
            }
            for one in (drawn, kept)
        )
        if said != known:
            return f"figure {number}: stored metadata {known}, now {said}"
        if not pixels:
            continue
        dark = [one[2].get(PALETTE) for one in (drawn, kept)]
        if (dark[0] is None) != (dark[1] is None):
            return f"figure {number}: only one of stored and drawn has inks for a dark page"
        for where, palettes in (
            ("", (None, None)),
            (", on a dark page,", dark),
        ):
            ours, theirs = (
                _pixels(one[1], palette)
                for one, palette in zip(
                    (drawn, kept), palettes, strict=True
                )
            )
            if ours.shape != theirs.shape:
                return f"figure {number}: stored size {theirs.shape[:2]}, now {ours.shape[:2]}"
            rms = float(((ours - theirs) ** 2).mean() ** 0.5)
            if rms > RMS_LIMIT:
                return f"figure {number}{where} differs from the stored one: RMS {rms:.2f} > {RMS_LIMIT}"
    return None


def _hundredth_apart(drawn, kept):
    """Whether weights differ by one hundredth at most, in few places, and are exactly zero in the same places."""
    import numpy as np

    ours, theirs = (
        np.frombuffer(base64.b64decode(text), np.uint8).astype(int)
        for text in (drawn, kept)
    )
    if ours.shape != theirs.shape or ((ours == 0) != (theirs == 0)).any():
        return False
    off = np.abs(ours - theirs)
    return bool(
        off.max(initial=0) <= 1 and off.sum() <= 2 + off.size // FEW
    )


def _settled(drawn, kept, sizes=True):
    """The HTML of a viewer that was drawn, with what the stored one has where the two may differ."""
    ours, theirs = drawn["text/html"], kept["text/html"]
    found, stored = VIEWER.match(ours), VIEWER.match(theirs)
    alike = (
        found
        and stored
        # The figure inside is that of the output, which is compared below.
        and found[4] == drawn.get("image/png")
        and stored[4] == kept.get("image/png")
        and _hundredth_apart(found[2], stored[2])
    )
    if not alike:
        return ours
    rest = ours[found.end() :]
    size = SIZE.search(theirs, stored.end())
    if not sizes and size:
        rest = SIZE.sub(lambda _: size[0], rest, count=1)
    return found[1] + stored[2] + found[3] + stored[4] + rest


def with_settled_viewers(new_outputs, stored_outputs, sizes=True):
    """The new outputs, as they are to be compared with the stored ones as texts."""

    def viewers(outputs):
        data = [output.get("data", {}) for output in outputs]
        return [
            kinds
            for kinds in data
            if VIEWER.match(kinds.get("text/html", ""))
        ]

    new_outputs = copy.deepcopy(new_outputs)
    for drawn, kept in zip(
        viewers(new_outputs), viewers(stored_outputs), strict=False
    ):
        drawn["text/html"] = _settled(drawn, kept, sizes)
    return new_outputs


def _alike(drawn, kept):
    """Whether two texts say the same, but for numbers that are off by a tenth or by .05."""
    ours, theirs = drawn.split(), kept.split()
    if len(ours) != len(theirs):
        return False
    for one, other in zip(ours, theirs, strict=True):
        if NUMBER.sub("#", one) != NUMBER.sub("#", other):
            return False
        for a, b in zip(
            NUMBER.findall(one), NUMBER.findall(other), strict=True
        ):
            a, b = (float(number.replace(",", "")) for number in (a, b))
            if abs(a - b) > max(0.05, 0.1 * abs(b)):
                return False
    return True


def with_settled_training(new_outputs, stored_outputs):
    """The new outputs of a cell that shows a training, with the stored text where they are near enough."""
    new_outputs = copy.deepcopy(new_outputs)
    for drawn, kept in zip(new_outputs, stored_outputs, strict=False):
        if "text" in drawn and "text" in kept:
            if _alike(drawn["text"], kept["text"]):
                drawn["text"] = kept["text"]
        elif "image/png" in kept.get("data", {}):
            # The text alternative says what the figure shows, which is not compared either.
            for kind in ("text/plain", "text/html"):
                if kind in kept["data"] and kind in drawn.get("data", {}):
                    drawn["data"][kind] = kept["data"][kind]
            drawn["metadata"] = kept["metadata"]
    return new_outputs


def trains(sources):
    """Whether one of these cells trains a model."""
    call = re.compile(rf"\b(?:{'|'.join(TRAINING)})\(")
    return any(call.search(source) for source in sources)


def other_torch():
    """Whether the installed PyTorch is another one than the pinned one."""
    pins = (Path(__file__).parent / "requirements.txt").read_text("utf-8")
    pinned = re.search(r"^torch==([\d.]+)", pins, re.MULTILINE)[1]
    return metadata.version("torch").split("+")[0] != pinned


def pytest_configure():
    versions = os.environ.get("VERSIONS")
    if versions and ELSEWHERE.get(versions) != Path(sys.prefix).name:
        raise pytest.UsageError(
            f"VERSIONS={versions} compares less, and is for `make test-oldest` and `make test-newest` alone"
        )


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
        elsewhere = bool(os.environ.get("VERSIONS"))
        if elsewhere and other_torch():
            cells = [
                cell.source
                for cell in self.parent.nb.cells
                if cell.cell_type == "code"
            ]
            if trains(cells[: self.cell_num + 1]):
                test = with_settled_training(test, ref)
        settled = with_settled_viewers(test, ref, sizes=not elsewhere)
        if not _compare(self, settled, ref, skip_compare):
            return False
        difference = image_difference(test, ref, pixels=not elsewhere)
        if difference:
            self.comparison_traceback.append(difference)
        return difference is None

    IPyNbCell.runtest = _run_if_stored
    IPyNbCell.compare_outputs = _compare_with_images
