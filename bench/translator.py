"""Store where the translator's heads look in the sentences of chapter 13, and what is written without them.

    python bench/translator.py

Needs the weights of requirements-weights.txt. The weights are stored in float16.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy starts its threads
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from storing import store_arrays

from attention_in_detail.models import load_translator, translate
from attention_in_detail.models.crossings import cross_silencing, forced
from attention_in_detail.notation import Array, Bool

# After each sentence its word pairs, written by hand from the two texts: "4-6" says that piece 4
# of the translation renders piece 6 of the sentence, counted from 0. What renders nothing has no pair.
SENTENCES = {
    # O acordo sobre o Espaço Económico Europeu foi assinado em Agosto de 1992.
    "The agreement on the European Economic Area was signed in August 1992.": (
        "0-0 1-1 2-2 3-3 4-6 5-5 6-4 7-7 8-8 9-9 10-10 12-11 13-12"
    ),
    # O carro vermelho par|ou na frente da igreja branca.
    "The red car stopped in front of the white church.": (
        "0-0 1-2 2-1 3-3 4-3 5-4 6-5 7-6 7-7 8-9 9-8 10-10"
    ),
    # Ela vende|u a antiga casa junto ao mar.
    "She sold the old house by the sea.": (
        "0-0 1-1 2-1 3-2 4-3 5-4 6-5 7-6 8-7 9-8"
    ),
    # A comissão aprovou o novo orçamento ontem.
    "The committee approved the new budget yesterday.": (
        "0-0 1-1 2-2 3-3 4-4 5-5 6-6 7-7"
    ),
    # O velho viu o cão, e o cão viu o velho.
    "The old man saw the dog, and the dog saw the old man.": (
        "0-0 1-1 1-2 2-3 3-4 4-5 5-6 6-7 7-8 8-9 9-10 10-11 11-12 11-13 12-14"
    ),
    # O Conselho de Segurança das Nações Unidas reuniu|-|se na segunda|-|feira.
    "The United Nations Security Council met on Monday.": (
        "0-0 1-4 3-3 5-2 6-1 7-5 8-5 9-5 10-6 11-7 12-7 13-7 14-8"
    ),
}


def table(pairs: str, T: int, S: int) -> Bool[Array, "T S"]:
    found = np.zeros((T, S), dtype=bool)
    for pair in pairs.split():
        t, s = map(int, pair.split("-"))
        found[t, s] = True
    return found


def main() -> None:
    model = load_translator()
    arrays, texts = {}, []
    for n, (sentence, pairs) in enumerate(SENTENCES.items()):
        found = translate(model, sentence)
        texts.append(found.text)
        T, S = found.weights.shape[-2:]
        drops, without = cross_silencing(model, sentence)
        arrays |= {
            f"source_{n}": np.array(found.source),
            f"target_{n}": np.array(found.target),
            f"weights_{n}": found.weights.astype(np.float16),
            f"pairs_{n}": table(pairs, T, S),
            f"drops_{n}": drops,
            f"texts_{n}": np.array(without),
            f"forced_head_{n}": np.array(forced(model, sentence, [0])),
            f"forced_layer_{n}": np.array(
                forced(model, sentence, range(8))
            ),
        }
        print(found.text, flush=True)
    arrays["sentences"] = np.array(list(SENTENCES))
    arrays["translations"] = np.array(texts)
    path = store_arrays("translator", arrays)
    print("stored in", path.relative_to(path.parents[3]))


if __name__ == "__main__":
    main()
