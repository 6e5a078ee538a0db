"""A world of one process, here: what needs no second one, and what is told where something is wrong."""

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading

import pytest
import torch
import torch.distributed as dist

from attention_in_detail.distributed import (
    Place,
    ProcessGroupError,
    launching,
    process_group,
    run_processes,
    starting,
    trying,
)
from attention_in_detail.distributed.counting import SentBytes, traffic
from attention_in_detail.distributed.paper import on_paper
from attention_in_detail.parameters import MultiHeadParameters
from tests import distributed_support as support
from tests.distributed_support import assert_near
from tests.support import normal

ENVIRONMENT = {
    "RANK": "0",
    "WORLD_SIZE": "1",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "0",
}


@pytest.fixture
def alone(monkeypatch):
    """The variables of a world of one; a port that the system chooses."""
    for name in list(os.environ):
        if name.startswith(("TORCHELASTIC", "LOCAL_")):
            monkeypatch.delenv(name)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def test_a_world_of_one_finds_what_no_world_finds(alone):
    with process_group() as place:
        found = support.everything()
    assert place == Place(0, 1, torch.device("cpu"))
    assert not dist.is_initialized()
    for dtype in support.DTYPES:
        for case in [*support.OFFSETS, "scale"]:
            offset, scale = (0, 0.3) if case == "scale" else (case, None)
            whole = support.ring_at_once(
                support.arrays_of_ring(dtype), offset, scale
            )
            for part, x in zip(
                found["ring", dtype, case], whole, strict=True
            ):
                assert_near(part, x, dtype)
        for case in support.LAYERS:
            p, *rest = support.arrays_of_layer(case, dtype)
            whole = support.run_layer(trying.module_with(p), *rest)
            for name, x in whole.items():
                assert_near(found["layer", dtype, case][name], x, dtype)
    assert found["sent"]["ring"] == (0, 0, 0)


def test_the_functions_of_the_page_in_a_world_of_one(alone):
    arrays = [normal(4, 6, seed=n) for n in range(4)]
    p = MultiHeadParameters.init(6, 2, seed=0)
    with process_group():
        ring = trying.try_ring(*arrays, 0)
        heads = trying.try_heads(p, arrays[0], arrays[3], 0)
        trying.stop_rank(1, "killed")
    whole = support.ring_at_once(arrays, 0)
    for name, x in zip(
        ("output", "queries", "keys", "values"), whole, strict=True
    ):
        assert_near(ring[name], x, "float64")
    assert (ring["passed"], ring["passed_both_ways"]) == (0, 0)
    assert heads["shapes"]["query.weight"] == (6, 6)
    assert (heads["summed"], heads["summed_both_ways"]) == (0, 0)
    whole = trying.module_with(p)
    output = whole(torch.tensor(arrays[0]), causal_offset=0)
    assert_near(heads["output"], output.detach(), "float64")


def test_the_program_of_the_page_runs_in_a_world_of_one(alone, capsys):
    exec(support.program_of_the_page(), {})
    assert capsys.readouterr().out == "rank 0 of 1: (8, 512, 64)\n"


@pytest.mark.parametrize("how", ["killed", "raises", "hangs"])
def test_a_rank_is_stopped_as_asked(how, alone):
    done = []
    alone.setattr("os.kill", lambda *given: done.append(given))
    alone.setattr("time.sleep", done.append)
    with process_group():
        alone.setattr(
            "attention_in_detail.distributed.starting._Notes.part",
            lambda notes: None,
        )
        if how == "raises":
            with pytest.raises(ValueError, match="no such file"):
                trying.stop_rank(0, how)
        else:
            trying.stop_rank(0, how)
    expected = {
        "killed": [(os.getpid(), signal.SIGKILL), 60],
        "raises": [],
        "hangs": [60],
    }
    assert done == expected[how]


# ---- starting wrongly


def refusal(**given):
    with (
        pytest.raises(ProcessGroupError) as refused,
        process_group(**given),
    ):
        pass
    assert not dist.is_initialized()
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_without_a_starter_it_says_how_to_start(alone):
    alone.delenv("RANK")
    alone.delenv("MASTER_PORT")
    assert refusal() == (
        "RANK, MASTER_PORT not set, so this process does not know the others; "
        "start it with `torchrun --standalone --nproc-per-node 2 FILE.py`, or through run_processes"
    )


@pytest.mark.parametrize(
    ("rank", "size"), [("1", "1"), ("-1", "2"), ("a", "2"), ("0", "0")]
)
def test_a_number_that_cannot_be_is_refused(rank, size, alone):
    alone.setenv("RANK", rank)
    alone.setenv("WORLD_SIZE", size)
    assert refusal().startswith(
        f"RANK is {rank} and WORLD_SIZE {size}, but RANK must be a number from 0 to WORLD_SIZE - 1; start it"
    )


def test_a_wrong_number_of_processes_is_refused(alone):
    assert refusal(ranks=4) == (
        "1 processes were started, but the program is for 4; "
        "start 4: `torchrun --standalone --nproc-per-node 4 FILE.py`"
    )
    with process_group(ranks=1) as place:
        assert place.ranks == 1


def test_a_process_that_does_not_come_is_named(alone):
    alone.setenv("WORLD_SIZE", "3")
    assert refusal(timeout=0.5) == (
        "rank 0 of 3 has waited 0.5 s for rank 1, 2; "
        "start 3 processes, or look at what those that are missing have said"
    )


def test_a_store_that_is_not_there_is_named(alone):
    alone.setenv("RANK", "1")
    alone.setenv("WORLD_SIZE", "2")
    # A port that was free a moment ago, and where nobody listens.
    store = dist.TCPStore("127.0.0.1", 0, is_master=True)
    port = store.port
    del store
    alone.setenv("MASTER_PORT", str(port))
    said = refusal(timeout=1)
    assert said.startswith(
        f"rank 1 of 2 finds no store at 127.0.0.1:{port} within 1 s (stopped with Dist"
    )
    assert said.endswith("is rank 0 running?")


def notes(store, rank, ranks):
    return starting._Notes(store, rank, ranks)


def test_two_processes_of_one_number_are_refused():
    store = dist.HashStore()
    notes(store, 0, 1).meet(1)
    with pytest.raises(
        ProcessGroupError, match=r"^two processes have the number 0 of 1;"
    ):
        notes(store, 0, 1).meet(1)


def test_different_numbers_of_processes_are_refused_on_both_sides():
    store = dist.HashStore()
    first = notes(store, 0, 3)
    with pytest.raises(ProcessGroupError, match="waited"):
        first.meet(0.01)
    with pytest.raises(
        ProcessGroupError,
        match=r"^WORLD_SIZE is 2 for rank 1, but 3 for another process;",
    ):
        notes(store, 1, 2).meet(1)
    store.delete_key("came/0")
    with pytest.raises(
        ProcessGroupError,
        match=r"^rank 0 of 3 cannot begin: rank 1 WORLD_SIZE is 2",
    ):
        first.meet(60)


# ---- ending wrongly


def test_an_error_of_its_own_passes_and_is_noted(alone):
    stores = []
    real = starting._store

    def kept(*given):
        stores.append(real(*given))
        return stores[0]

    alone.setattr(starting, "_store", kept)
    with (
        pytest.raises(ZeroDivisionError),
        process_group(),
    ):
        1 / 0  # noqa: B018
    assert stores[0].get("ended/0") == (
        b"stopped with ZeroDivisionError: division by zero"
    )
    assert not dist.is_initialized()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            RuntimeError(
                "[x/gloo/transport/tcp/pair.cc:1] Connection reset"
            ),
            "another rank has ended; look at what it said",
        ),
        (
            RuntimeError(
                "[x/gloo/x.cc:1] Timed out waiting 4000ms for recv"
            ),
            "another rank did not answer within 3 s",
        ),
        (
            dist.DistBackendError("NCCL"),
            "another rank has ended; look at what it said",
        ),
    ],
)
def test_a_failed_exchange_is_one_error(error, said, alone):
    alone.setattr(starting, "PATIENCE", 0.05)
    with pytest.raises(ProcessGroupError) as lost, process_group(timeout=3):
        raise error
    assert str(lost.value) == (
        f"rank 0 of 1 has lost its group: {said}; start all processes again"
    )
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_what_another_rank_left_is_told():
    store = dist.HashStore()
    one = notes(store, 0, 3)
    notes(store, 1, 3).write("ended", "was killed")
    assert one.others_end(5) == "rank 1 was killed"
    assert starting._lost("rank 0 of 3", one.others_end(0), None) == (
        "rank 0 of 3 has lost its group: rank 1 was killed; start all processes again"
    )
    with pytest.raises(
        ProcessGroupError,
        match="rank 0 of 3 had done its part, but rank 1 was killed",
    ):
        one.part()


def test_whoever_has_done_its_part_is_told_that_others_waited_in_vain():
    store = dist.HashStore()
    notes(store, 2, 3).write("lost")
    with pytest.raises(
        ProcessGroupError,
        match="rank 2 waited for it in vain: not every rank makes the same",
    ):
        notes(store, 0, 3).part()


class Gone:
    """A store whose keeper has ended."""

    def __getattr__(self, name):
        def lost(*given):
            raise dist.DistNetworkError("Connection reset by peer")

        return lost


def test_a_store_that_is_gone_is_no_second_error():
    one = notes(Gone(), 0, 2)
    one.write("lost")
    assert one.others_end(0) == ""
    assert one.part() is None


def test_waiting_for_others_at_the_end_has_no_limit(monkeypatch):
    store = dist.HashStore()
    naps = []

    def nap(seconds):
        naps.append(seconds)
        if len(naps) == 3:
            store.add("done", 1)

    monkeypatch.setattr("time.sleep", nap)
    notes(store, 0, 2).part()
    assert len(naps) == 3


def test_the_signal_of_torchrun_is_an_error_that_says_so(alone):
    before = signal.getsignal(signal.SIGTERM)
    with (
        pytest.raises(
            ProcessGroupError, match=r"rank 0 of 1 was told to stop \(SIG"
        ),
        process_group(),
    ):
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


def test_outside_the_main_thread_signals_are_left_alone(alone):
    places = []

    def enter():
        with process_group() as place:
            places.append(place)
        starting._hear_no_signal()

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert places
    assert signal.getsignal(signal.SIGTERM) == before


def test_where_each_process_has_a_gpu_nccl_is_taken(alone):
    given = {}
    alone.setattr("torch.cuda.device_count", lambda: 2)
    alone.setattr(dist, "is_nccl_available", lambda: True)
    alone.setattr("torch.cuda.set_device", lambda x: given.update(on=x))
    alone.setattr(
        dist,
        "init_process_group",
        lambda backend, **more: given.update(backend=backend),
    )
    alone.setenv("LOCAL_RANK", "1")
    alone.setenv("LOCAL_WORLD_SIZE", "2")
    place = starting._join(dist.HashStore(), 3, 4, 1.0, None)
    assert place == Place(3, 4, torch.device("cuda", 1))
    assert given == {"backend": "nccl", "on": torch.device("cuda", 1)}
    alone.setenv("LOCAL_WORLD_SIZE", "3")
    assert starting._join(
        dist.HashStore(), 0, 3, 1.0, None
    ).device == torch.device("cpu")
    assert given["backend"] == "gloo"


# ---- the launcher, without a second process


def work(function, *args, timeout=5.0):
    """What a process of the launcher would tell."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True)
    here, there = multiprocessing.Pipe(duplex=False)
    threads = torch.get_num_threads()
    try:
        launching._work(
            there,
            launching._variables(0, 1, store.port),
            pickle.dumps((function, args)),
            timeout,
        )
    finally:
        torch.set_num_threads(threads)
    return here.recv()


def test_a_process_tells_what_it_returned(alone):
    assert work(support.numbers, "a") == (
        "returned",
        (0, 1, os.getpid(), "a"),
    )


def test_a_process_tells_of_its_error_and_where_it_was(alone):
    kind, (line, where) = work(trying.stop_rank, 0, "raises")
    assert (kind, line) == (
        "raised",
        "stopped with ValueError: no such file",
    )
    assert "in stop_rank" in where
    kind, (line, _) = work(support.cannot_be_sent)
    assert kind == "raised"
    assert "ickle" in line


def test_a_process_tells_that_it_lost_the_others(alone):
    alone.setattr(
        launching, "process_group", lambda **_: contextlib.nullcontext()
    )
    alone.setattr(support, "numbers", lose)
    assert work(lose)[0] == "lost"


def lose():
    raise ProcessGroupError("rank 0 of 2 has lost its group")


def test_a_process_whose_parent_is_gone_says_nothing(alone):
    class Broken:
        def send(self, message):
            raise BrokenPipeError

        def close(self):
            pass

    store = dist.TCPStore("127.0.0.1", 0, is_master=True)
    variables = launching._variables(0, 1, store.port)
    launching._work(
        Broken(), variables, pickle.dumps((support.numbers, (1,))), 5.0
    )
    assert not dist.is_initialized()


def test_a_process_ends_with_its_parent(alone):
    here, there = multiprocessing.Pipe(duplex=False)
    there.close()  # what a sentinel does when its process ends
    codes = []
    launching._end_with(here, codes.append)
    assert codes == [1]

    class Parent:
        sentinel = here

    alone.setattr(multiprocessing, "parent_process", Parent)
    alone.setattr(launching, "_end_with", codes.append)
    work(support.numbers, "a")
    assert codes == [1, here]


def test_where_there_is_no_loopback_gloo_finds_its_own_way(monkeypatch):
    monkeypatch.setattr("socket.if_nameindex", lambda: [(1, "eth0")])
    assert "GLOO_SOCKET_IFNAME" not in launching._variables(0, 2, 1)
    monkeypatch.setattr("socket.if_nameindex", lambda: [(1, "lo0")])
    assert launching._variables(0, 2, 1)["GLOO_SOCKET_IFNAME"] == "lo0"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (-9, "was killed by signal 9 (SIGKILL)"),
        (-15, "was killed by signal 15 (SIGTERM)"),
        (0, "ended with exit code 0 before it was done"),
    ],
)
def test_how_a_process_ended_is_said(code, said):
    assert launching._killed(code) == said


class Child:
    exitcode = -9

    def join(self):
        pass


def collected(*messages, **options):
    """What is made of messages; None is an end without one, ... no end at all."""
    pipes = [multiprocessing.Pipe(duplex=False) for _ in messages]
    for (_, end), message in zip(pipes, messages, strict=True):
        if message is not ...:
            if message:
                end.send(message)
            end.close()
    store = dist.HashStore()
    try:
        return launching._collect(
            [Child() for _ in messages],
            [a for a, _ in pipes],
            store,
            **options,
        )
    except ProcessGroupError as error:
        return error


def test_what_all_returned_is_in_order():
    assert collected(("returned", "a"), ("returned", "b")) == ["a", "b"]


def test_the_cause_is_told_and_not_who_suffered_from_it():
    error = collected(
        ("lost", ("rank 0 of 3 has lost its group", "traceback of 0")),
        None,
        ("returned", "c"),
    )
    assert str(error) == (
        "3 processes have ended, since rank 1 was killed by signal 9 (SIGKILL); none of them is left"
    )
    assert error.ranks == {
        0: "rank 0 of 3 has lost its group",
        1: "was killed by signal 9 (SIGKILL)",
    }
    assert error.__notes__ == ["rank 0:\ntraceback of 0"]


def test_where_each_only_lost_the_others_the_first_is_told():
    lost = ("lost", ("rank 0 of 2 has waited", ""))
    error = collected(lost, ("lost", ("rank 1 of 2 has waited", "")))
    assert str(error) == (
        "2 processes have ended, since rank 0 of 2 has waited; none of them is left"
    )


def test_whoever_is_still_running_is_ended():
    error = collected(("raised", ("stopped with a", "")), ..., grace=0.05)
    assert str(error) == (
        "2 processes have ended, since rank 0 stopped with a; "
        "rank 1 was still running 0.05 s after another had failed, and was ended; none of them is left"
    )


# ---- two processes that fail


def assert_none_left():
    assert multiprocessing.active_children() == []


def test_a_killed_rank_is_told_on_the_other_and_none_is_left():
    with pytest.raises(ProcessGroupError) as error:
        run_processes(trying.stop_rank, 2, 1, "killed")
    assert str(error.value) == (
        "2 processes have ended, since rank 1 was killed by signal 9 (SIGKILL); none of them is left"
    )
    assert error.value.ranks == {
        0: "rank 0 of 2 has lost its group: rank 1 was killed by signal 9 (SIGKILL); start all processes again",
        1: "was killed by signal 9 (SIGKILL)",
    }
    assert_none_left()


# ---- counting, and on paper


class Named:
    def __init__(self, name):
        self.own = name

    def name(self):
        return self.own

    def __call__(self, *args, **kwargs):
        return args, kwargs


def test_what_is_handed_over_is_counted_by_operation():
    counter = SentBytes()
    x = torch.ones(3, 2)  # 24 bytes
    counter.__torch_dispatch__(Named("c10d::send"), (), ([x, x], None, 1))
    counter.__torch_dispatch__(
        Named("_c10d_functional::all_reduce"), (), (x, "sum", "0")
    )
    assert counter.__torch_dispatch__(Named("aten::add"), (), (1,)) == (
        (1,),
        {},
    )
    assert (counter.passed, counter.summed) == (48, 24)


def ring_sum(ranks, length):
    """Numbers that each rank sends where ``length`` numbers are summed in a ring, step by step."""
    pieces = [range(length)[n::ranks] for n in range(ranks)]
    sent = [0] * ranks
    for step in range(ranks - 1):
        for rank in range(ranks):
            sent[rank] += len(pieces[(rank - step) % ranks])
            sent[rank] += len(pieces[(rank + 1 - step) % ranks])
    return sent


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_a_sum_in_a_ring_sends_twice_all_but_a_part(ranks):
    count = traffic("heads", ranks, 24, ranks=ranks, itemsize=1)
    for sent in ring_sum(ranks, 24 * ranks):
        assert sent == count.sent
    assert count.sent == 2 * (ranks - 1) * 24


def test_counts_on_paper_are_those_of_the_formulas():
    given = {
        "ring": 4,
        "beside": 2,
        "itemsize": 2,
        "multiply_adds_per_second": 1000.0,
        "bytes_per_second": 10.0,
    }
    one = on_paper(32, 6, **given)
    t, width = 8, 3
    assert one.positions == t
    assert one.bytes_held == 6 * t * width * 2
    assert one.bytes_of_weights == 32 * 32 * 2
    assert one.multiply_adds == t * 32 * 2 * width
    assert one.bytes_passed == 3 * 2 * t * width * 2
    assert one.bytes_summed == t * 6 * 2
    assert one.seconds_computing == one.multiply_adds / 1000
    assert one.seconds_passing == one.bytes_passed / 10
    assert one.seconds_summing == one.bytes_summed / 10
    assert one.enough_positions == 200
    assert one.seconds == one.seconds_passing + one.seconds_summing
    both = on_paper(
        32, 6, **given, backward=True, bytes_per_second_beside=5.0
    )
    assert both.multiply_adds == 3.5 * one.multiply_adds
    assert both.bytes_passed == 2 * one.bytes_passed + 4 * 2 * t * width * 4
    assert both.bytes_summed == 2 * one.bytes_summed
    assert both.seconds_summing == both.bytes_summed / 5
