"""A project: multi-head attention from an empty file, up to a trained model that runs on it.

    python -m attention_in_detail.project my_attention.py

says which functions of the file are right, and of the first that is not, what is not right yet. It never says the answer.
"""

from attention_in_detail.project.examining import (
    NUMBERS,
    Fault,
    Report,
    code_of,
    examine,
)
from attention_in_detail.project.stages import STAGES, Stage
from attention_in_detail.project.translating import translated

__all__ = [
    "NUMBERS",
    "STAGES",
    "Fault",
    "Report",
    "Stage",
    "code_of",
    "examine",
    "translated",
]
