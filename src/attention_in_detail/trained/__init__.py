"""Small models that were trained for this book, stored with it, and the scripts that made them.

Each model has a file of weights, the script of the same name that makes it, and its
hash below: nothing is used whose hash is another. Reading needs NumPy only.
"""

from typing import Literal

from attention_in_detail._checks import checked
from attention_in_detail._known_files import WeightsError
from attention_in_detail.decoder_only import DecoderOnlyParameters
from attention_in_detail.encoder_decoder import TransformerParameters
from attention_in_detail.models._checks import check_load
from attention_in_detail.trained._files import trained_parameters

__all__ = ["WeightsError", "trained_decoder_only", "trained_number_words"]

SHA256 = {
    "decoder_only": "ba3d059f4b6476b2afa07bcadd81bd02d347c44c0986881bfa187c75f4e08d8c",
    "number_words": "2d66665317b52cd1fd309c4c6df9a19b1c0117c3b23028e6eb12ce0213cb9a7d",
    "translator": "39faa2c98f505b5a596c0b6d85a684ac7047eddf63e7476b30ada6616b241d58",
}
"""Of each file; the script that makes it prints the new one."""


@checked(check_load)
def trained_number_words(
    dtype: Literal["float32", "float64"] = "float64",
) -> TransformerParameters:
    """Return the model of English to German number words, trained with seed 0.

    :func:`attention_in_detail.tasks.training.train_number_words` made it. Its
    vocabularies are ``ENGLISH`` and ``GERMAN`` of
    :mod:`attention_in_detail.tasks.number_words`. The weights were rounded to float16
    once.

    Args:
        dtype: of the arrays.

    Returns:
        The parameters, arrays of NumPy.

    Raises:
        ValueError: if ``dtype`` is another.
        WeightsError: if the file of weights is missing or is not the one known.
    """
    return trained_parameters("number_words", SHA256["number_words"], dtype)


@checked(check_load)
def trained_decoder_only(
    dtype: Literal["float32", "float64"] = "float64",
) -> DecoderOnlyParameters:
    """Return the decoder that goes on with sequences that repeat themselves, trained with seed 0.

    :func:`attention_in_detail.insights.decoder_only.train_decoder_only` made it. Its
    vocabulary is ``VOCABULARY`` of :mod:`attention_in_detail.tasks.repeating`. The
    weights were rounded to float16 once.

    Args:
        dtype: of the arrays.

    Returns:
        The parameters, arrays of NumPy.

    Raises:
        ValueError: if ``dtype`` is another.
        WeightsError: if the file of weights is missing or is not the one known.
    """
    return trained_parameters("decoder_only", SHA256["decoder_only"], dtype)
