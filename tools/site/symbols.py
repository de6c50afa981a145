"""The paper's symbols in the plain text of docstrings, `mu_hat_r` and `delta_c^hard`, as typeset mathematics."""

import re

GREEK = ("alpha", "beta", "delta", "eps", "mu", "phi", "pi", "Omega", "Xi")
# A Greek letter, or a Latin one with an index; perhaps with a hat, an index below and another above.
SYMBOL = re.compile(
    rf"(?<![\w^.])(?P<base>{'|'.join(GREEK)}|[a-zA-Z](?=_[a-z](?!\w))|[wV](?=\*))"
    r"(?P<hat>_hat)?(?:_(?P<below>[a-zL]))?(?P<star>\*(?!\w))?(?:\^(?P<above>hard|soft|low|up|L))?(?![\w^])"
)
NORM = re.compile(r"norm_2(\((?:[^()]|\([^()]*\))*\))")
POWER = re.compile(r"\^(\w+|\([^()]*\))")
SIGNS = {" <= ": " ≤ ", " >= ": " ≥ ", " @ ": " · ", " * ": " \N{MULTIPLICATION SIGN} "}


def typeset(text: str) -> str:
    """The text as reStructuredText, in which no other character has a meaning."""
    for sign, shown in SIGNS.items():
        text = text.replace(sign, shown)
    text = NORM.sub(lambda found: f"‖{found[1][1:-1]}‖₂", text)
    made, end = [], 0
    for found in SYMBOL.finditer(text):
        made += [_escaped(text[end : found.start()]), rf"\ :math:`{_latex(found)}`\ "]
        end = found.end()
    return "".join((*made, _escaped(text[end:])))


def _latex(found: re.Match[str]) -> str:
    base = {"eps": r"\varepsilon"}.get(
        found["base"], found["base"] if len(found["base"]) == 1 else f"\\{found['base']}"
    )
    hatted = rf"\hat{{{base}}}" if found["hat"] else base
    below = f"_{{{found['below']}}}" if found["below"] else ""
    above = "*" if found["star"] else found["above"] if found["above"] == "L" else rf"\mathrm{{{found['above']}}}"
    return hatted + below + (f"^{{{above}}}" if found["star"] or found["above"] else "")


def _escaped(text: str) -> str:
    return POWER.sub(r"\\ :sup:`\1`\\ ", re.sub(r"([*|_\\])", r"\\\1", text))
