"""The classic bugs as data: where each was shipped, what is changed in the package, and which tests notice.

test_classic_bugs.py plants each one and runs those tests; test_chapter_91.py holds the page to this list.
"""

from __future__ import annotations

from dataclasses import dataclass

from attention_in_detail import (
    attention_weights,
    causal_mask,
    mask_from_torch_mha,
    merge_heads,
    multi_head_attention,
    softmax,
    split_heads,
)
from attention_in_detail.layers import with_residual
from attention_in_detail.nn import MultiHeadAttention
from attention_in_detail.nn import multi_head as nn_multi_head
from attention_in_detail.planting import planted


@dataclass(frozen=True)
class Bug:
    """A bug with a place in the package.

    Attributes:
        shipped: in which projects, as the page names them.
        changes: the function, the piece of its source, and what stands in its place.
        noticed_by: tests, as "file::name" below tests/.
    """

    shipped: tuple[str, ...]
    changes: tuple[tuple, ...]
    noticed_by: tuple[str, ...]

    def planted(self):
        return [planted(*change) for change in self.changes]


UNSAFE = (
    softmax,
    "xp.where(largest == -xp.inf, constant(0.0, wide), largest)",
    "largest",
)
BILLION = (attention_weights, "constant(-xp.inf, z)", "constant(-1e9, z)")

BUGS = {
    "merged without the swap": Bug(
        ("jsbaan/transformer-from-scratch, pull request 6",),
        ((merge_heads, "xp.moveaxis(x, -3, -2)", "x"),),
        (
            "test_multi_head.py::test_merging_puts_heads_side_by_side",
            "test_multi_head.py::test_multi_head_attention_equals_its_formula",
            "test_peers.py::test_multi_head_attention_equals_that_of_torch",
        ),
    ),
    "split without the swap": Bug(
        (),
        (
            (
                split_heads,
                "xp.moveaxis(cut, -2, -3)",
                "xp.reshape(x, (*batch, heads, T, D // heads))",
            ),
        ),
        (
            "test_multi_head.py::test_head_i_owns_its_own_columns",
            "test_multi_head.py::test_multi_head_attention_equals_its_formula",
        ),
    ),
    "the root of the wrong width": Bug(
        ("ViT-CIFAR #11", "DL4Proteins #12"),
        (
            (
                multi_head_attention,
                "q, k, v, mask=mask",
                "q, k, v, scale=parameters.D**-0.5,\n        mask=mask",
            ),
        ),
        (
            "test_multi_head.py::test_multi_head_attention_equals_its_formula",
            "test_corrections.py::test_scores_of_a_head_are_divided_by_the_root_of_its_width",
        ),
    ),
    "true read as ignore": Bug(
        ("PyTorch #170404", "#114083"),
        (
            (
                mask_from_torch_mha,
                "combine_masks.unchecked(mask, ~one)",
                "combine_masks.unchecked(mask, one)",
            ),
        ),
        (
            "test_masks.py::test_masks_from_torch_mean_to_us_what_they_mean_there",
            "test_masks.py::test_masks_come_back_from_torch_as_they_went",
        ),
    ),
    "two conventions in one package": Bug(
        ("cs249r_book #1785",),
        (
            (
                nn_multi_head._fused_attention,
                "kernel_mask = is_open | ~some_key",
                "kernel_mask = ~is_open | ~some_key",
            ),
        ),
        (
            "nn/test_nn_multi_head.py::test_the_module_is_the_function_whatever_is_asked_for",
        ),
    ),
    "the wrong corner": Bug(
        ("PyTorch #103082", "#108108"),
        ((causal_mask, "j <= i + offset", "j <= i"),),
        (
            "test_masks.py::test_a_query_with_cached_keys_sees_them_all",
            "test_decoding.py::test_cached_is_uncached_token_by_token",
        ),
    ),
    "maps without the mask": Bug(
        ("UvA tutorial 6",),
        (
            (
                multi_head_attention,
                "merged = merge",
                "_, weights = attention(q, k, v, return_weights=True)\n"
                "    merged = merge",
            ),
        ),
        (
            "test_multi_head.py::test_the_number_of_axes_says_what_a_mask_or_bias_speaks_of",
            "test_masks.py::test_masks_from_torch_mean_to_us_what_they_mean_there",
        ),
    ),
    "the mean of the padding": Bug(
        ("annotated-transformer", "UvA", "d2l", "equinox"),
        (BILLION,),
        (
            "test_scaled_dot_product.py::test_a_query_that_may_attend_to_nothing_gets_zeros",
            "test_scaled_dot_product.py::test_all_rows_may_be_empty",
        ),
    ),
    "one NaN for all": Bug(
        ("PyTorch #41508", "#160064"),
        (UNSAFE,),
        (
            "test_rows.py::test_softmax_of_minus_infinity_is_zero",
            "test_scaled_dot_product.py::test_a_query_that_may_attend_to_nothing_has_the_gradient_zero_exactly",
        ),
    ),
    "a billion in half precision": Bug(
        ("apex #1052", "transformers #17306"),
        (
            (
                attention_weights,
                "constant(-xp.inf, z)",
                "constant(-1e9, narrowed(z, queries.dtype))",
            ),
            UNSAFE,
        ),
        (
            "test_scaled_dot_product.py::test_minus_infinity_shuts_in_half_precision",
        ),
    ),
    "the argument is changed": Bug(
        ("d2l, masked_softmax",),
        (
            (
                softmax,
                "exponentials = xp.exp(wide - largest)",
                "wide -= largest\n    exponentials = xp.exp(wide)",
            ),
        ),
        ("test_rows.py::test_softmax_leaves_what_it_is_given_as_it_was",),
    ),
    "dropout in use": Bug(
        ("PyTorch #124464",),
        (
            (
                MultiHeadAttention.forward,
                "self.dropout if self.training else 0.0",
                "self.dropout",
            ),
        ),
        (
            "nn/test_nn_multi_head.py::test_dropout_is_off_outside_training",
            "nn/test_nn_layers.py::test_dropout_is_for_training_alone",
        ),
    ),
    "the norm on the other side": Bug(
        ("annotated-transformer #13", "d2l-en #803"),
        ((with_residual, "if norm_first:", "if not norm_first:"),),
        (
            "test_layers.py::test_an_encoder_layer_is_its_formula",
            "test_layers.py::test_an_encoder_layer_equals_that_of_torch",
        ),
    ),
}


@dataclass(frozen=True)
class Guard:
    """What keeps out a bug that no line of the package can have.

    Attributes:
        shipped: in which projects, as the page names them.
        kept_out_by: tests, as "file::name" below tests/.
    """

    shipped: tuple[str, ...]
    kept_out_by: tuple[str, ...]


GUARDS = {
    "dead after an upgrade": Guard(
        ("annotated-transformer #133", "d2l-en #2638"),
        (
            "test_house.py::test_pin_is_exact",
            "test_house.py::test_installed_version_is_the_pinned_one",
            "test_house.py::test_declared_dependency_has_a_pin_that_it_admits",
        ),
    ),
    "a second list": Guard(
        ("QuantEcon myst #916",),
        ("test_guards.py::test_versions_are_pinned_in_no_other_file",),
    ),
    "a test that cannot fail": Guard(
        ("rasbt, test_ch03.py",),
        (
            "test_guards.py::test_every_test_asserts_something",
            "test_guards.py::test_no_comparison_goes_nowhere",
        ),
    ),
    "green, and nothing published": Guard(
        ("brainhack #201",),
        (
            "pages/test_site.py::test_every_entry_of_the_contents_has_its_page",
            "test_guards.py::test_the_builder_stays_below_its_second_version",
        ),
    ),
    "blank without a network": Guard(
        ("bertviz #63",),
        (
            "pages/test_site.py::test_the_site_has_no",
            "pages/test_browser.py::test_a_page_on_a_phone_and_on_a_wide_screen",
        ),
    ),
}
