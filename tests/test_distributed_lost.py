"""Processes that are lost, hang, or never come: one error on every rank, in time, and none is left."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import attention_in_detail
from attention_in_detail.distributed import (
    ProcessGroupError,
    run_processes,
)
from attention_in_detail.distributed.trying import stop_rank
from tests import distributed_support as support

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[1]
SOURCE = Path(attention_in_detail.__file__).parents[1]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(SOURCE), str(ROOT)]),
    "OMP_NUM_THREADS": "1",
}
# Seconds from the loss of a rank until that is told; and those in which interpreters start, loaded as a machine may be.
STATED, STARTING = 30, 60

PROGRAM = """
import os, sys
from attention_in_detail.distributed import process_group
from tests.distributed_support import stop_and_note

how, wanted, folder = sys.argv[1:]
with open(f"{folder}/{os.environ['RANK']}", "w") as file:
    file.write(str(os.getpid()))
with process_group(ranks=int(wanted), timeout=float(os.environ.get("LIMIT", 20))):
    if how != "ok":
        stop_and_note(1, how, f"{folder}/../stopped")
"""


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # One that has ended and was not yet collected is no process any more.
    status = Path(f"/proc/{pid}/stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ended(folder, within=10):
    """Whether every process that left its number in ``folder`` ends."""
    limit = time.monotonic() + within
    pids = [int(path.read_text()) for path in folder.iterdir()]
    while any(alive(pid) for pid in pids):
        if time.monotonic() > limit:
            return False
        time.sleep(0.05)
    return bool(pids)


def seconds_since(path):
    """How long ago a rank was stopped, by the clock that all processes of a machine share."""
    return time.monotonic() - float(path.read_text())


def torchrun(folder, how, *, wanted=2, text=PROGRAM, **variables):
    """Start two processes as a user would; return what was said, and how long ago rank 1 was stopped."""
    program = folder / "program.py"
    program.write_text(text)
    pids = folder / "pids"
    pids.mkdir()
    stopped = folder / "stopped"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node=2",
            str(program),
            how,
            str(wanted),
            str(pids),
        ],
        env={**ENVIRONMENT, **variables},
        capture_output=True,
        text=True,
        timeout=240,
    )
    took = seconds_since(stopped) if stopped.exists() else None
    assert text != PROGRAM or ended(pids)
    return done.returncode, done.stdout + done.stderr, took


def test_under_torchrun_all_is_well(tmp_path):
    code, said, _ = torchrun(tmp_path, "ok")
    assert code == 0
    assert "Error" not in said


def test_under_torchrun_the_program_of_the_page_runs(tmp_path):
    text = support.program_of_the_page()
    code, said, _ = torchrun(tmp_path, "ok", text=text)
    assert code == 0
    for rank in (0, 1):
        assert said.count(f"rank {rank} of 2: (8, 512, 64)") == 1


def test_under_torchrun_a_killed_rank_is_told_on_the_other(tmp_path):
    code, said, took = torchrun(tmp_path, "killed")
    assert code != 0
    line = "rank 0 of 2 has lost its group: another rank has ended; look at what it said; start all processes again"
    assert said.count(line) == 1
    assert "SIGKILL" in said  # what torchrun itself says of rank 1
    assert took < STATED


def test_under_torchrun_an_error_of_one_rank_is_told_on_the_other(tmp_path):
    code, said, _ = torchrun(tmp_path, "raises")
    assert code != 0
    assert "rank 0 of 2 has lost its group: rank 1 stopped with" in said
    assert "ValueError: no such file" in said


def test_under_torchrun_a_rank_that_hangs_is_told_and_ended(tmp_path):
    code, said, took = torchrun(tmp_path, "hangs", LIMIT="4")
    assert code != 0
    assert (
        "rank 0 of 2 has lost its group: another rank did not answer within 4 s"
        in said
    )
    assert "rank 1 of 2 was told to stop (SIGTERM)" in said
    assert took < STATED


def test_under_torchrun_a_wrong_number_of_processes_is_refused(tmp_path):
    code, said, _ = torchrun(tmp_path, "ok", wanted=4)
    assert code != 0
    assert "2 processes were started, but the program is for 4;" in said


def test_a_rank_that_hangs_is_told_within_the_stated_time(tmp_path):
    stopped = tmp_path / "stopped"
    with pytest.raises(ProcessGroupError) as error:
        run_processes(support.stop_and_note, 2, 1, "hangs", str(stopped))
    took = seconds_since(stopped)
    assert error.value.ranks == {
        0: "rank 0 of 2 has lost its group: another rank did not answer within 20 s; start all processes again",
        1: "was still running 5 s after another had failed, and was ended",
    }
    assert took < STATED
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("rank", [0, 2])
def test_of_three_ranks_both_others_are_told_within_the_stated_time(
    rank, tmp_path
):
    stopped = tmp_path / "stopped"
    with pytest.raises(ProcessGroupError) as error:
        run_processes(
            support.stop_and_note, 3, rank, "killed", str(stopped)
        )
    assert seconds_since(stopped) < STATED
    for other, said in error.value.ranks.items():
        if other == rank:
            assert said == "was killed by signal 9 (SIGKILL)"
        else:
            assert said.startswith(
                f"rank {other} of 3 has lost its group: rank {rank} was killed"
            )
    assert len(error.value.ranks) == 3
    assert multiprocessing.active_children() == []


def test_a_rank_that_leaves_early_is_told_that_it_was_waited_for():
    with pytest.raises(ProcessGroupError, match="same exchanges") as error:
        run_processes(support.leave_early, 2, 0, timeout=3)
    assert error.value.ranks[0].startswith("rank 0 of 2 had done its part")
    assert "within 3 s" in error.value.ranks[1]


def test_a_rank_that_ends_without_a_word_is_named():
    with pytest.raises(ProcessGroupError, match="exit code 0") as error:
        run_processes(support.exit_quietly, 2, 1)
    assert (
        error.value.ranks[1] == "ended with exit code 0 before it was done"
    )


def test_what_cannot_be_sent_back_is_an_error():
    with pytest.raises(ProcessGroupError, match=r"rank 0 stopped .*ickle"):
        run_processes(support.cannot_be_sent, 1)


def test_an_error_says_where_it_was():
    with pytest.raises(ProcessGroupError) as error:
        run_processes(stop_rank, 2, 1, "raises")
    assert any("in stop_rank" in note for note in error.value.__notes__)


def test_processes_end_with_the_one_that_started_them(tmp_path):
    program = (
        "from attention_in_detail.distributed import run_processes\n"
        "from tests import distributed_support as s\n"
        "if __name__ == '__main__':\n"
        f"    run_processes(s.wait_long, 2, 600, {str(tmp_path / 'pid')!r})\n"
    )
    script = tmp_path / "script" / "start.py"
    script.parent.mkdir()
    script.write_text(program)
    parent = subprocess.Popen(
        [sys.executable, str(script)], env=ENVIRONMENT
    )
    limit = time.monotonic() + STARTING
    written = [tmp_path / "pid.0", tmp_path / "pid.1"]
    while not all(path.exists() and path.read_text() for path in written):
        assert time.monotonic() < limit
        assert parent.poll() is None
        time.sleep(0.1)
    pids = tmp_path / "pids"
    pids.mkdir()
    for path in written:
        path.rename(pids / path.name)
    assert all(alive(int(path.read_text())) for path in pids.iterdir())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert ended(pids)
