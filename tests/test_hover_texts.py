"""What an editor shows of a public function: the dims or shapes of what it takes and gives, and what becomes of units.

Editors show the docstring of the stub, or where it has none that of the source (`tests/test_typed_face.py` holds them
equal), and so what is shown is the function's own docstring.
"""

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tensorir as ti
from tensorir.binding.quantities import units_of
from tensorir.fieldview import MATHEMATICS
from tensorir.ir.types import tensor

FUNCTIONS = {name: inspect.getdoc(getattr(ti, name)) for name in dir(ti) if inspect.isfunction(getattr(ti, name))}
OF_NO_ARRAYS = {"dims", "fencil", "loop_plan", "tensor"}
WITH_UNITS = {
    *MATHEMATICS, "as_field", "as_offset", "astype", "broadcast", "concat_where", "coord", "extend",
    "field_operator", "grad", "iterate", "jit", "map_blocks", "max_over", "min_over", "neighbor_sum",
    "scan_operator", "value_and_grad", "where", "with_boundary",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - OF_NO_ARRAYS))
def test_a_function_of_arrays_says_their_dims_or_shapes(name):
    assert re.search(r"\b([Dd]ims?|shapes?|intervals?|extents?)\b", FUNCTIONS[name].split(">>>")[0])


@pytest.mark.parametrize("name", sorted(WITH_UNITS))
def test_where_units_have_a_rule_it_is_said(name):
    assert re.search(r"\b[Uu]nits?\b", FUNCTIONS[name].split(">>>")[0])


ELEMENTS = {"floats": "float", "numbers": "float", "integers": "int", "bools": "bool", "any element type": "float"}


@pytest.mark.parametrize("name", MATHEMATICS)
def test_mathematics_gives_the_dims_the_element_types_and_the_units_that_its_text_says(name):
    told = FUNCTIONS[name].split("\n\n")[1]
    kind = re.search(rf"(?:of |\()({'|'.join(ELEMENTS)})\b", told)[1]
    a, b = tensor(ELEMENTS[kind], I=(0, 4)), tensor(ELEMENTS[kind], I=(1, 5), J=(0, 3))
    two = "Of two fields" in told
    function = getattr(ti, name)
    program = ti.field_operator((lambda x, y: function(x, y)) if two else (lambda x: function(x)))
    program = program.fencil(a, b) if two else program.fencil(a)
    (out,) = program.outputs
    element = "bool" if re.search("of bools|^Of .*: bools", told) else ELEMENTS[kind]
    assert out.type == (tensor(element, I=(1, 4), J=(0, 3)) if two else tensor(element, I=(0, 4)))

    assert units_of(program, {"x": "m", "y": "m"}) == ({} if "says none" in told else {"out": "m"})
    if two and "A32" in told:
        with pytest.raises(ti.DiagnosticError, match="A32"):
            units_of(program, {"x": "m", "y": "K"})
    elif two:
        assert units_of(program, {"x": "m", "y": "K"}) == {}


def hovers(names, folder):
    """What pyright's language server shows of public names."""
    lines = ["import tensorir as ti", *(f"ti.{name}" for name in names), ""]
    (folder / "user.py").write_text("\n".join(lines))
    (folder / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(Path(ti.__file__).parents[1])]}))
    command = [sys.executable, "-c", "from pyright.langserver import main; main('--stdio')"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:

        def send(**message):
            body = json.dumps({"jsonrpc": "2.0", **message}).encode()
            server.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            server.stdin.flush()

        def answer(number):
            while True:
                heads = list(iter(server.stdout.readline, b"\r\n"))
                length = next(int(h.split(b":")[1]) for h in heads if h.lower().startswith(b"content-length"))
                message = json.loads(server.stdout.read(length))
                if "method" in message and "id" in message:  # it asks for settings, and has them from the file
                    items = message.get("params", {}).get("items", [])
                    send(id=message["id"], result=[{} for _ in items])
                elif message.get("id") == number:
                    return message["result"]

        def asked(number, method, params):
            send(id=number, method=method, params=params)
            return answer(number)

        file = {"uri": (folder / "user.py").as_uri()}
        place = {"uri": folder.as_uri(), "name": "user"}
        able = {"textDocument": {"hover": {"contentFormat": ["markdown"]}}}
        start = {"processId": None, "rootUri": place["uri"], "workspaceFolders": [place], "capabilities": able}
        asked(0, "initialize", start)
        send(method="initialized", params={})
        text = {**file, "languageId": "python", "version": 1, "text": "\n".join(lines)}
        send(method="textDocument/didOpen", params={"textDocument": text})
        shown = {}
        for number, name in enumerate(names, 1):
            at = {"textDocument": file, "position": {"line": number, "character": 4}}
            shown[name] = asked(number, "textDocument/hover", at)["contents"]["value"]
        asked(len(names) + 1, "shutdown", None)
        send(method="exit", params=None)
    return shown


@pytest.mark.nightly
def test_the_language_server_shows_the_whole_text_of_every_function(tmp_path):
    def words(text):
        return re.findall(r"\w+", text.split(">>>")[0])

    shown = hovers(FUNCTIONS, tmp_path)
    assert {n for n, text in FUNCTIONS.items() if words(text) != words(shown[n].split("---")[-1])} == set()
