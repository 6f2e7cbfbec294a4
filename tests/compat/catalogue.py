"""The code blocks printed in the design documents: which of them run here, and why the others do not.

A block is named by its document and the number of its first line: `s001_041` is document 001, line 41. What is run
lies in `blocks/`, exactly as printed; its digest is kept here so that no formatter improves it.
"""

from __future__ import annotations

from pathlib import Path

BLOCKS = Path(__file__).parent / "blocks"

#: The blocks that run, and the beginning of the SHA-256 of their text.
RUN: dict[str, str] = {
    "s001_041": "c1865f7442a0d8e6",
    "s001_051": "4df4cb4f3459997a",
    "s001_062": "9016257def1a52ac",
    "s001_167": "308b1b6650497b14",
    "s001_421": "821bf19a4b7b4b0d",
    "s001_448": "af9ad82ef458f83b",
    "s001_559": "6ca0ee5e5f584d87",
    "s001_587": "8bcfd4ac29f7f0a6",
    "s001_641": "5812cd6e175345f5",
    "s001_652": "ceec90d85e232dc6",
    "s001_667": "3821dcc168f43ba9",
    "s001_694": "995c67bf18f64803",
    "s001_733": "a26ba6a21d64eb7d",
    "s001_776": "00c06cc4d647723a",
    "s001_793": "e4e7a4bff5e33ca6",
    "s001_956": "cd44abf4404a0fc3",
    "s001_1027": "1d33bc1c49b13713",
    "s001_1051": "68cd97a9940261fb",
    "s001_1104": "9629d770705a89cd",
    "s001_1161": "3edfc8740220e58f",
    "s001_1177": "b1ee47a3398ea21c",
    "s001_1201": "076534541cb826b0",
    "s001_1241": "f5ada2ff5dea9373",
    "s001_1252": "558585b736789ab5",
    "s001_1265": "4c1ee116c2bfceda",
    "s001_1446": "3c70c67eb73144ee",
    "s001_1457": "f81a58bd286f2fa5",
    "s001_1491": "c0a236c65bf6db30",
    "s003_118": "c9e3f8762800bf7a",
    "s003_134": "4378880fdfd15fbc",
    "s003_200": "57717a0ac5260f00",
    "s003_228": "409cc83f37e2ef9e",
    "s003_258": "1d2c47ba51487b18",
    "s004_229": "cf804b9ffe9ea338",
    "s004_250": "03b2f8fd3b023901",
    "s004_292": "a67e08495b07733c",
    "s004_311": "d4c6e265cd29eb71",
    "s004_321": "c1074d154d52b076",
    "s004_338": "a05bf91fb7205d6a",
    "s004_350": "2f573b92b1345aa4",
    "s004_367": "b439969194538865",
    "s004_391": "cf572eeb51879d99",
    "s004_932": "c20895975d750d28",
    "s004_945": "f308c0a12a5c0093",
    "s004_959": "430976f9240a7c4d",
    "s004_975": "f76f30b039917228",
    "s004_995": "b164bad4f990f3ec",
    "s004_1027": "b296a71e2f072650",
    "s004_1061": "957ecc5c7ea505cf",
    "s004_1078": "a34663e99abf61b6",
    "s004_1095": "936f8f2ab872b4fb",
    "s004_1114": "b47501e52fc2846c",
    "s004_1134": "36cbf770618c0725",
    "s004_1157": "447f60d9002c2ddd",
    "s004_1173": "3154dfbd3557e265",
    "s004_1275": "77960cd0a6f579a4",
    "s004_1286": "9061a157eaf63b94",
    "s004_1305": "deeeb3d0acebfaeb",
    "s004_1323": "a1b5d6ca02f0f761",
    "s004_1333": "251d6742bdff4c1d",
    "s004_1398": "3d44d3c9238d2136",
    "s004_1405": "4b50a2ac967f9b15",
    "s004_1420": "09a2b1a33fa1142f",
    "s004_1563": "b7404dc3adf2502b",
    "s004_1588": "a7e05a3447b5aaed",
    "s004_1624": "49cc5f363ccea320",
    "s004_1640": "6751c67bf3760aa0",
    "s004_1671": "7f8b0476bcfdd24b",
    "s004_1697": "ec13d7ac03221db9",
    "s004_1709": "2f37d61a67171de9",
}

_INTERNALS = "an excerpt of somebody's internals: `self`, `...` and functions that exist nowhere"
_TREE = "a drawing of calls, not Python"
_COMMENT = "nothing but comments"
_BAD = "printed as a bad example: it blocks the event loop on purpose"
_HALF_BAD = "two functions of one name, no worker among them; one of the two is printed as a bad example"

#: The blocks that do not run, and why.
NOT_RUN: dict[str, str] = {
    "s001_229": _INTERNALS,
    "s001_244": _INTERNALS,
    "s001_259": _INTERNALS,
    "s001_278": _INTERNALS,
    "s001_291": _INTERNALS,
    "s001_300": _INTERNALS,
    "s001_320": _INTERNALS,
    "s001_362": _INTERNALS,
    "s001_384": _INTERNALS,
    "s001_747": "the docstring of a package: there is nothing to run",
    "s001_888": _INTERNALS,
    "s001_1428": "a shell line; test_command_lines.py runs it",
    "s003_113": "two programs in one, the first with `async with` outside of a function; its second half is s003_118",
    "s004_184": _TREE,
    "s004_203": _TREE,
    "s004_304": _COMMENT,
    "s004_328": _COMMENT,
    "s004_359": _COMMENT,
    "s004_379": _COMMENT,
    "s004_605": _INTERNALS,
    "s004_631": _INTERNALS,
    "s004_688": _INTERNALS,
    "s004_761": _INTERNALS,
    "s004_1014": _BAD,
    "s004_1045": _BAD,
    "s004_1369": "a function whose body is a comment: not valid Python",
    "s004_1454": _BAD,
    "s004_1461": _HALF_BAD,
    "s004_1477": _HALF_BAD,
    "s004_1496": _HALF_BAD,
    "s004_1513": "printed as a bad example: it never ends",
    "s004_1531": _HALF_BAD,
}

#: First lines of all Python blocks, as the documents print them (003:118 is the second half of 003:113).
PRINTED: dict[str, str] = {
    "001": "41 51 62 167 229 244 259 278 291 300 320 362 384 421 448 559 587 641 652 667 694 733 747 776 793 888 956 "
    "1027 1051 1104 1161 1177 1201 1241 1252 1265 1428 1446 1457 1491",
    "003": "113 118 134 200 228 258",
    "004": "184 203 229 250 292 304 311 321 328 338 350 359 367 379 391 605 631 688 761 932 945 959 975 995 1014 1027 "
    "1045 1061 1078 1095 1114 1134 1157 1173 1275 1286 1305 1323 1333 1369 1398 1405 1420 1454 1461 1477 1496 1513 "
    "1531 1563 1588 1624 1640 1671 1697 1709",
}


def printed() -> set[str]:
    """The names of all blocks."""
    return {f"s{document}_{int(line):03d}" for document, lines in PRINTED.items() for line in lines.split()}


def text_of(name: str) -> str:
    """A block as printed."""
    return path_of(name).read_text()


def path_of(name: str) -> Path:
    """The file of a block."""
    return BLOCKS / f"{name}.py"
