"""The figures of the book: functions that take arrays and return a `Picture`, which knows its text alternative.

Importing this package loads matplotlib, which the rest of the package does without.
"""

from .bars import bars
from .blocks import matrix_blocks
from .curves import curves
from .encoder_decoder import encoder_decoder
from .heads import head_grid
from .heatmap import weights_heatmap
from .labelled_array import labelled_array
from .layouts import split_layouts
from .lines import attention_lines
from .picture import Picture
from .products import matrix_products
from .viewer import AttentionViewer, attention_viewer
from .weighted_sum import weighted_sum

__all__ = [
    "AttentionViewer",
    "Picture",
    "attention_lines",
    "attention_viewer",
    "bars",
    "curves",
    "encoder_decoder",
    "head_grid",
    "labelled_array",
    "matrix_blocks",
    "matrix_products",
    "split_layouts",
    "weighted_sum",
    "weights_heatmap",
]
