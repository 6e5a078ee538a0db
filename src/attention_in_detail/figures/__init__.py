"""Figures of attention."""
from .heatmap import weights_heatmap
from .picture import Picture
from .products import matrix_products
