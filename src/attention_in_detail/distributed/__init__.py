"""Attention over several processes, on ``torch.distributed``.

Two ways to split it: by heads (:mod:`~attention_in_detail.distributed.heads`) and by positions
(:mod:`~attention_in_detail.distributed.ring`). Needs PyTorch, and is not imported by the package itself.
"""

from attention_in_detail.distributed.heads import (
    HeadsOverRanks,
    split_over_ranks,
)
from attention_in_detail.distributed.launching import run_processes
from attention_in_detail.distributed.ring import ring_attention
from attention_in_detail.distributed.schedule import (
    Turn,
    held_block,
    own_rows,
    ring_schedule,
)
from attention_in_detail.distributed.starting import (
    Place,
    ProcessGroupError,
    process_group,
)

__all__ = [
    "HeadsOverRanks",
    "Place",
    "ProcessGroupError",
    "Turn",
    "held_block",
    "own_rows",
    "process_group",
    "ring_attention",
    "ring_schedule",
    "run_processes",
    "split_over_ranks",
]
