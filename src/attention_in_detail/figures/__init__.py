"""The figures of the book: functions that take arrays and return a `Picture`, which knows its text alternative.

Importing this package loads matplotlib, which the rest of the package does without.
"""

from .bars import bars
from .blocks import matrix_blocks
from .curves import curves
from .heads import head_grid
from .heatmap import weights_heatmap
from .layouts import split_layouts
from .lines import attention_lines
from .picture import Picture
from .products import matrix_products

__all__ = [
    "Picture",
    "attention_lines",
    "bars",
    "curves",
    "head_grid",
    "matrix_blocks",
    "matrix_products",
    "split_layouts",
    "weights_heatmap",
]
