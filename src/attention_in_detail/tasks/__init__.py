"""Small tasks that a reader can train on, with data made on the spot.

:mod:`attention_in_detail.tasks.number_words` needs NumPy only;
:mod:`attention_in_detail.tasks.training` needs torch, and nothing else here imports it.
"""

__all__: list[str] = []
