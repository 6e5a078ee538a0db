"""Run a function in several processes of this machine, and see to it that none is left."""

import contextlib
import multiprocessing
import os
import pickle
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from numbers import Real
from typing import Any

import torch
import torch.distributed as dist

from attention_in_detail._checks import checked
from attention_in_detail.distributed._checks import check_run_processes
from attention_in_detail.distributed.starting import (
    ProcessGroupError,
    in_one_line,
    process_group,
)
from attention_in_detail.notation import Size

__all__ = ["run_processes"]

# How long others may still take to end by themselves when one has failed.
GRACE = 5
# How long the processes may take to come: one that ends meanwhile is known to the one that starts them.
START = 120
HOST = "127.0.0.1"


@checked(check_run_processes)
def run_processes(
    function: Callable[..., Any],
    ranks: Size,
    *args: Any,
    timeout: Real = 20.0,
) -> list[Any]:
    """Run ``function(*args)`` in several processes of this machine that form a group.

    Each process is a new interpreter, within ``process_group``. The function asks
    ``torch.distributed`` for its rank. They find each other on 127.0.0.1, at a port
    that the system chooses. Where one fails the others are told; whatever happens, no
    process is left when this returns. For programs of their own there is ``torchrun``.

    Args:
        function: one that a module has, so that another process can import it.
        ranks: how many processes.
        args: what each of them is given; it is pickled.
        timeout: seconds an exchange may take, as for ``process_group``.

    Returns:
        What each rank returned, in the order of the ranks.

    Raises:
        TypeError: if an argument is of a wrong kind, or the function cannot be
            imported.
        ValueError: if ``ranks`` is below 1 or ``timeout`` not above 0.
        ProcessGroupError: if a rank raised an error, was killed, or was still running
            5 s after another had failed. ``ranks`` of the error has what became of
            each.
    """
    ranks = int(ranks)
    store = dist.TCPStore(
        HOST,
        0,
        is_master=True,
        wait_for_workers=False,
        timeout=timedelta(seconds=timeout),
    )
    work = pickle.dumps((function, args))
    context = multiprocessing.get_context("spawn")
    children, ends = [], []
    try:
        for rank in range(ranks):
            ours, theirs = context.Pipe(duplex=False)
            child = context.Process(
                target=_work,
                args=(
                    theirs,
                    _variables(rank, ranks, store.port),
                    work,
                    timeout,
                ),
                daemon=True,
            )
            child.start()
            theirs.close()
            children.append(child)
            ends.append(ours)
        return _collect(children, ends, store)
    finally:
        for child in children:
            child.kill()
        for child, end in zip(children, ends, strict=False):
            child.join()
            child.close()
            end.close()


def _variables(rank: int, ranks: int, port: int) -> dict[str, str]:
    """What torchrun would set; the store is kept by whoever starts the processes."""
    found = {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": HOST,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": "0",
    }
    loops = [
        name for _, name in socket.if_nameindex() if name in ("lo", "lo0")
    ]
    if loops:
        found["GLOO_SOCKET_IFNAME"] = loops[0]
    return found


def _work(
    end: Any,
    variables: dict[str, str],
    work: bytes,
    timeout: Real,
) -> None:
    """What each process does: join, run, tell."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(
            target=_end_with, args=(parent.sentinel,), daemon=True
        ).start()
    os.environ.update(variables)
    here = int(variables["LOCAL_WORLD_SIZE"])
    torch.set_num_threads(max(1, torch.get_num_threads() // here))
    try:
        with process_group(timeout=timeout, start=START):
            function, args = pickle.loads(work)
            result = function(*args)
        message = "returned", result
    except BaseException as error:
        message = _told(error)
    with contextlib.suppress(BrokenPipeError):
        try:
            end.send(message)
        except (AttributeError, TypeError, pickle.PicklingError) as error:
            end.send(_told(error))
    end.close()


def _told(error: BaseException) -> tuple[str, tuple[str, str]]:
    """What this process tells of an error: the kind, one line, and where it was."""
    where = traceback.format_exc()
    if isinstance(error, ProcessGroupError):
        return "lost", (str(error), where)
    return "raised", (in_one_line(error), where)


def _end_with(parent: Any, end: Callable[[int], None] = os._exit) -> None:
    """End this process when its parent has ended, however that came."""
    wait([parent])
    end(1)


def _collect(
    children: list[Any],
    ends: list[Connection],
    store: dist.Store,
    grace: Real = GRACE,
) -> list[Any]:
    """Wait for every process to tell how it ended; once one has failed, no longer than ``grace`` seconds."""
    told: dict[int, tuple[str, Any]] = {}
    limit = None
    while len(told) < len(children):
        left = None if limit is None else max(0.0, limit - time.monotonic())
        open_ends = {
            end: rank for rank, end in enumerate(ends) if rank not in told
        }
        ready = wait(list(open_ends), left)
        for end in ready:
            rank = open_ends[end]
            try:
                told[rank] = end.recv()
            except EOFError:
                children[rank].join()
                how = _killed(children[rank].exitcode)
                told[rank] = "died", (how, "")
                dist.PrefixStore("attention_in_detail/0/0", store).set(
                    f"ended/{rank}", how
                )
            if told[rank][0] != "returned" and limit is None:
                limit = time.monotonic() + grace
        if not ready:
            for rank in open_ends.values():
                how = f"was still running {grace:g} s after another had failed, and was ended"
                told[rank] = "hung", (how, "")
    if limit is None:
        return [told[rank][1] for rank in range(len(children))]
    raise _failure(told)


def _killed(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code} before it was done"
    return f"was killed by signal {-code} ({signal.Signals(-code).name})"


def _failure(told: dict[int, tuple[str, Any]]) -> ProcessGroupError:
    """One error for all: first the ranks that failed by themselves, then how many were drawn in."""
    failed = {
        rank: end for rank, end in told.items() if end[0] != "returned"
    }
    causes = [rank for rank, (kind, _) in failed.items() if kind != "lost"]
    parts = [f"rank {rank} {failed[rank][1][0]}" for rank in sorted(causes)]
    if (
        not causes
    ):  # each only lost the others: the first says what there is to say
        parts = [failed[min(failed)][1][0]]
    message = f"{len(told)} processes have ended, since {'; '.join(parts)}; none of them is left"
    error = ProcessGroupError(
        message, {rank: end[1][0] for rank, end in sorted(failed.items())}
    )
    for rank in failed:
        if failed[rank][1][1]:
            error.add_note(f"rank {rank}:\n{failed[rank][1][1]}")
    return error
