"""A group of processes that forms within a stated time, and comes apart with one clear error on every rank."""

import contextlib
import itertools
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from numbers import Real
from typing import Any

import torch
import torch.distributed as dist

from attention_in_detail._checks import checked
from attention_in_detail.distributed._checks import check_process_group
from attention_in_detail.notation import Size

__all__ = ["Place", "ProcessGroupError", "process_group"]

# How long a rank that has lost another one waits to be told what became of it.
PATIENCE = 2
NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
HOW = "start it with `torchrun --standalone --nproc-per-node 2 FILE.py`, or through run_processes"
# Each group of a process has names of its own in the store.
_groups = itertools.count()


class ProcessGroupError(RuntimeError):
    """A group of processes did not form, or has lost one of them.

    Attributes:
        ranks: for ``run_processes``, what became of each rank that failed, by its
            number.
    """

    def __init__(
        self, message: str, ranks: dict[int, str] | None = None
    ) -> None:
        super().__init__(message)
        self.ranks = ranks or {}


@dataclass(frozen=True)
class Place:
    """Which of the processes this one is.

    Attributes:
        rank: its number, from 0 to ``ranks`` − 1.
        ranks: how many there are.
        device: where its tensors belong.
    """

    rank: int
    ranks: int
    device: torch.device


@checked(check_process_group)
def process_group(
    *,
    ranks: Size | None = None,
    timeout: Real = 20.0,
    start: Real | None = None,
    backend: str | None = None,
) -> contextlib.AbstractContextManager[Place]:
    """Form the group of all processes for the time of a ``with`` block.

    Reads what ``torchrun`` sets: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT,
    LOCAL_RANK. At the end of the block a rank waits for the others, so that none
    leaves while it is still needed.

    Args:
        ranks: how many processes the program is written for; None takes any number.
        timeout: how many seconds an exchange may take. A rank that hangs is an error on
            the others after that time, one that ends is an error at once.
        start: how many seconds to wait at the start until all processes are there; None
            means as long as ``timeout``.
        backend: ``"gloo"`` or ``"nccl"``; None takes NCCL where there is a GPU for each
            process of this machine, else gloo.

    Returns:
        A context manager that gives the ``Place`` of this process.

    Raises:
        TypeError: if an argument is of a wrong kind.
        ValueError: if a time is not above 0, or the backend is not known.
        ProcessGroupError: in the block or on entering it: the variables are missing,
            the number of processes is wrong, not all of them have come in time, or one
            ended or does not answer. The line says which, as far as it is known.
    """
    return _process_group(
        None if ranks is None else int(ranks),
        timeout,
        timeout if start is None else start,
        backend,
    )


@contextlib.contextmanager
def _process_group(
    wanted: int | None, timeout: Real, start: Real, backend: str | None
) -> Iterator[Place]:
    rank, ranks = _numbers(wanted)
    who = f"rank {rank} of {ranks}"
    with _told_to_stop(who):
        store = _store(who, rank, start)
        notes = _Notes(store, rank, ranks)
        try:
            notes.meet(start)
            place = _join(store, rank, ranks, timeout, backend)
            yield place
            notes.part()
        except Exception as error:
            if isinstance(error, ProcessGroupError):
                raise
            if not _is_of_the_group(error):
                notes.write("ended", in_one_line(error))
                raise
            _hear_no_signal()
            notes.write("lost")
            late = "Timed out" in str(error)
            cause = notes.others_end(0 if late else PATIENCE)
            raise ProcessGroupError(
                _lost(who, cause, timeout if late else None)
            ) from None
        finally:
            if dist.is_initialized():
                dist.destroy_process_group()


def _numbers(wanted: int | None) -> tuple[int, int]:
    """Read rank and number of ranks; refuse what is missing or wrong."""
    missing = [name for name in NEEDED if not os.environ.get(name)]
    if missing:
        raise ProcessGroupError(
            f"{', '.join(missing)} not set, so this process does not know the others; {HOW}"
        )
    try:
        rank, ranks = (
            int(os.environ[name]) for name in ("RANK", "WORLD_SIZE")
        )
    except ValueError:
        rank = ranks = -1
    if not 0 <= rank < ranks:
        raise ProcessGroupError(
            f"RANK is {os.environ['RANK']} and WORLD_SIZE {os.environ['WORLD_SIZE']}, "
            f"but RANK must be a number from 0 to WORLD_SIZE - 1; {HOW}"
        )
    if wanted not in (None, ranks):
        raise ProcessGroupError(
            f"{ranks} processes were started, but the program is for {wanted}; "
            f"start {wanted}: `torchrun --standalone --nproc-per-node {wanted} FILE.py`"
        )
    return rank, ranks


def _store(who: str, rank: int, timeout: Real) -> dist.Store:
    """Reach the store through which the processes find each other, or keep it where nobody else does."""
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    kept = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    try:
        store = dist.TCPStore(
            host,
            port,
            is_master=rank == 0 and not kept,
            wait_for_workers=False,
            timeout=timedelta(seconds=timeout),
        )
    except dist.DistError as error:
        raise ProcessGroupError(
            f"{who} finds no store at {host}:{port} within {timeout:g} s ({in_one_line(error)}); is rank 0 running?"
        ) from None
    tries = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return dist.PrefixStore(
        f"attention_in_detail/{tries}/{next(_groups)}", store
    )


class _Notes:
    """What the processes leave for each other in the store: that they came, and how they ended."""

    def __init__(self, store: Any, rank: int, ranks: int) -> None:
        self.store, self.rank, self.ranks = store, rank, ranks

    def meet(self, timeout: Real) -> None:
        """Wait until every process is there; refuse two of one number, and different ideas of how many there are."""
        size = self.store.compare_set("ranks", "", str(self.ranks)).decode()
        if size != str(self.ranks):
            self._refuse(
                f"WORLD_SIZE is {self.ranks} for rank {self.rank}, but {size} for another process; "
                "start all of them with one command"
            )
        if self.store.add(f"came/{self.rank}", 1) > 1:
            self._refuse(
                f"two processes have the number {self.rank} of {self.ranks}; "
                "start all of them with one command"
            )
        end = time.monotonic() + timeout
        while missing := [
            rank
            for rank in range(self.ranks)
            if not self.store.check([f"came/{rank}"])
        ]:
            if cause := self.others_end(0):
                raise ProcessGroupError(
                    f"rank {self.rank} of {self.ranks} cannot begin: {cause}; start all processes again"
                )
            if time.monotonic() > end:
                listed = ", ".join(map(str, missing))
                raise ProcessGroupError(
                    f"rank {self.rank} of {self.ranks} has waited {timeout:g} s for rank {listed}; "
                    f"start {self.ranks} processes, or look at what those that are missing have said"
                )
            time.sleep(0.01)

    def _refuse(self, message: str) -> None:
        self.write("ended", message)
        raise ProcessGroupError(message)

    def write(self, what: str, how: str = "") -> None:
        # Whoever keeps the store may be the one that has ended; DistError is a RuntimeError.
        with contextlib.suppress(RuntimeError):
            self.store.set(f"{what}/{self.rank}", how)

    def written(self, what: str) -> dict[int, str]:
        """Return what other ranks wrote, by their numbers."""
        with contextlib.suppress(RuntimeError):
            return {
                rank: self.store.get(f"{what}/{rank}").decode()
                for rank in range(self.ranks)
                if rank != self.rank
                and self.store.check([f"{what}/{rank}"])
            }
        return {}

    def others_end(self, patience: Real) -> str:
        """Return how other ranks ended, as far as that is written within ``patience`` seconds."""
        end = time.monotonic() + patience
        while True:
            found = self.written("ended")
            if found or time.monotonic() >= end:
                return "; ".join(
                    f"rank {rank} {how}" for rank, how in found.items()
                )
            time.sleep(0.02)

    def part(self) -> None:
        """Wait until every process has come to the end of its block, however long that takes."""
        try:
            self.store.add("done", 1)
            while self.store.add("done", 0) < self.ranks:
                cause = self.others_end(0)
                if lost := self.written("lost"):
                    cause = cause or (
                        f"rank {min(lost)} waited for it in vain: not every rank makes the same exchanges"
                    )
                if cause:
                    raise ProcessGroupError(
                        f"rank {self.rank} of {self.ranks} had done its part, but {cause}"
                    )
                time.sleep(0.01)
        except dist.DistError:
            # Whoever keeps the store is the last to need it: all have come.
            return


def _join(
    store: dist.Store,
    rank: int,
    ranks: int,
    timeout: Real,
    backend: str | None,
) -> Place:
    local = int(os.environ.get("LOCAL_RANK", rank))
    here = int(os.environ.get("LOCAL_WORLD_SIZE", ranks))
    if backend is None:
        enough = torch.cuda.device_count() >= here
        backend = "nccl" if enough and dist.is_nccl_available() else "gloo"
    device = torch.device("cpu")
    if backend == "nccl":
        device = torch.device("cuda", local)
        torch.cuda.set_device(device)
    dist.init_process_group(
        backend,
        store=store,
        rank=rank,
        world_size=ranks,
        timeout=timedelta(seconds=timeout),
    )
    return Place(rank, ranks, device)


def _is_of_the_group(error: Exception) -> bool:
    """Whether an exchange failed: gloo raises plain RuntimeErrors that name its files or its pairs."""
    text = str(error)
    return isinstance(error, dist.DistError) or (
        isinstance(error, RuntimeError)
        and any(
            word in text
            for word in ("gloo/", "pair closure", "Gloo", "NCCL")
        )
    )


def in_one_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"stopped with {type(error).__name__}: {lines[0]}"


def _lost(who: str, cause: str, waited: Real | None) -> str:
    if not cause:
        cause = (
            "another rank has ended; look at what it said"
            if waited is None
            else f"another rank did not answer within {waited:g} s"
        )
    return f"{who} has lost its group: {cause}; start all processes again"


def _hear_no_signal() -> None:
    """From here on the process ends by itself: who tells it to stop must not cut off what it says."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


@contextlib.contextmanager
def _told_to_stop(who: str) -> Iterator[None]:
    """Turn the signal by which torchrun ends the other ranks into an error that says so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: Any) -> None:
        _hear_no_signal()
        raise ProcessGroupError(
            f"{who} was told to stop (SIGTERM), as torchrun does when another rank has failed; "
            "look at what that one said"
        )

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
