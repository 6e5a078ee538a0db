"""The insights of Part III: one module an experiment, on top of the rest of the package.

Nothing else in the package imports anything from here. Modules that train need PyTorch;
:mod:`attention_in_detail.insights.results` does not.
"""

__all__: list[str] = []
