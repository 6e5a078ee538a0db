"""Write the folder that students get for the project *From an empty file*.

    python tools/scratch_project.py [FOLDER]      (without one: _build/course/project)

It holds README.md, made from the stages of the package, an empty my_attention.py, and a test for pytest. A my_attention.py
that has something in it is left as it is.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import yaml

from attention_in_detail.project import NUMBERS, STAGES

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "_build/course/project"
FILE = "my_attention.py"

TITLE = yaml.safe_load((ROOT / "_config.yml").read_text("utf8"))["title"]

BEGINNING = f"""\
# From an empty file

You write multi-head attention, from nothing, with NumPy alone: {len(STAGES)} small functions in `{FILE}`. At the end a trained
translator of number words runs on your functions, and writes German.

## Begin

You need Python 3.11 or newer and the package of the book *{TITLE}*. In a copy of the book's repository:

    pip install .

Then, here in this folder:

    python -m attention_in_detail.project {FILE}

The file is empty. The command says what to write first. Write it, run the command again, and go on like this: it judges the
functions in their order, and says of the first that is not right yet what is not right. It never says the answer. It
names the chapter and the section of the book that explain the step.

If you prefer pytest, `python -m pytest` in this folder says the same.

## Rules

- Import NumPy and what comes with Python, nothing else.
- Functions take arrays of floats and return arrays. They leave their arguments as they are.
- In the table below, shapes leave out the axes of a batch. There may be any number of them, in front. So count axes from the
  back: `-1` is the last one, wherever the batch stands.
- Later functions may call earlier ones, and should.
- Helper functions of your own are welcome.
- Print what you want to see: the command shows what your code printed while the stage ran that is not right yet.

The command runs your code as any other program. If it does not end, stop it with Ctrl-C: it then says which function
ran, and where.

## What to write
"""

END = f"""\
## The model

When all {len(STAGES)} are right, the model translates {len(NUMBERS)} numbers with them, as one batch:
embeddings, norms and feed-forward networks are those of the book, everything that attends or masks is yours. Ask it for
others:

    python -m attention_in_detail.project {FILE} --translate 4321 99

That works whatever the state of your functions, as soon as `self_attention`, `cross_attention`, `causal_mask` and
`padding_mask` are there. So when you are done, break one: leave out the root, the swap, the mask. See what the
model writes then, and which mistakes it survives.
"""

TEST = f'''\
"""The project under pytest: passes when all is done, and says what is not right yet until then."""

from pathlib import Path

from attention_in_detail.project import examine


def test_my_attention():
    report = examine(Path(__file__).with_name("{FILE}"))
    assert report.complete, f"{{report.title}}: {{report.message}}"
'''


def stage_text(number: int, stage: object) -> str:
    task = textwrap.fill(
        stage.task, 120, initial_indent="   ", subsequent_indent="   "
    )
    return (
        f"{number}. `{stage.call}`\n\n{task}\n\n"
        f'   Chapter *{stage.title}*, "{stage.section}".\n'
    )


def readme() -> str:
    stages = "\n".join(
        stage_text(number, stage)
        for number, stage in enumerate(STAGES, start=1)
    )
    return f"{BEGINNING}\n{stages}\n{END}"


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0]) if arguments else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "README.md").write_text(readme(), "utf8")
    (folder / "test_my_attention.py").write_text(TEST, "utf8")
    (folder / FILE).touch()
    print(f"project: {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
