"""Every unit test runs with the package's annotations checked at run time, on top of its own input checks."""

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    # One thread: steady results, and no barriers between two busy cores.
    os.environ.setdefault(_name, "1")
os.environ.setdefault("KERAS_BACKEND", "torch")

from jaxtyping import install_import_hook  # noqa: E402

# Before anything imports the package, and for the whole run.
install_import_hook("attention_in_detail", "beartype.beartype").__enter__()

import hypothesis  # noqa: E402

hypothesis.settings.register_profile(
    "default", max_examples=60, deadline=None, derandomize=True
)
hypothesis.settings.register_profile(
    "more", max_examples=1000, deadline=None
)
# For a failure that is only to be seen, not to be read: no smaller example is looked for.
hypothesis.settings.register_profile(
    "few",
    max_examples=10,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
)
hypothesis.settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE", "default")
)
