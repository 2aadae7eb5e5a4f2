"""The library of programs: what is there, what its pages say, and that every program has a reference and a sample."""

import inspect
import re

import program_references as references
import pytest
from program_samples import sample

from stencils import library

SECTIONS = ["Equation", "Dims", "Parameters", "Boundary", "Run", "Source"]


def header(name):
    """Name and parameter names of a program's only fencil, read with regular expressions."""
    body = re.sub(r"//.*", "", library.text(name))
    fencil, parameters = re.match(r"\s*(\w+)\(\n(.*?)\n\) \{", body, re.DOTALL).groups()
    return fencil, re.findall(r"^  (\w+): tensor", parameters, re.MULTILINE)


def test_the_library_has_the_programs_that_it_promises():
    assert library.names() == (
        "advection_third_order",
        "advection_upwind",
        "biharmonic",
        "hdiff",
        "heat",
        "laplacian",
        "mesh_laplacian",
        "nabla",
        "neighbour_max",
        "shallow_water",
        "terrain_filter",
        "tridiagonal",
        "vertical_advection",
    )


@pytest.mark.parametrize("name", library.names())
def test_a_page_has_a_title_and_every_section_in_order(name):
    page = library.documentation(name).splitlines()
    assert page[0] and page[1] == "" and page[2]
    assert [line for line in page if line in SECTIONS] == SECTIONS


@pytest.mark.parametrize("name", library.names())
def test_a_page_explains_every_parameter_and_dim_of_its_fencil(name):
    _, parameters = header(name)
    page = library.documentation(name)
    explained = {
        word.strip(",") for line in page.splitlines() if line.startswith("  ") for word in line.split("  ")[1].split()
    }
    dims = set(re.findall(r"(\w+)\[[^]]*:", re.sub(r"//.*", "", library.text(name)))) - {"out", "u", "v"}
    assert set(parameters) <= explained, set(parameters) - explained
    assert dims <= explained, dims - explained


@pytest.mark.parametrize("name", library.names())
def test_a_file_holds_one_fencil_of_its_own_name_in_lines_that_fit(name):
    text = library.text(name)
    assert header(name)[0] == name
    assert len(re.findall(r"^\w+\($", text, re.MULTILINE)) == 1
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("name", library.names())
def test_a_reference_and_a_sample_have_the_inputs_of_the_program(name):
    parameters = header(name)[1]
    wanted = list(inspect.signature(getattr(references, name)).parameters)
    assert sorted(sample(name)) == sorted(wanted)
    assert [p for p in parameters if p in wanted] == wanted
    assert len(parameters) - len(wanted) <= 1


def test_an_unknown_program_is_answered_with_a_suggestion():
    with pytest.raises(ValueError, match=r"^there is no program 'laplacean': did you mean 'laplacian'\?$"):
        library.text("laplacean")
    with pytest.raises(ValueError, match=r"^there is no program '../../secret': known here: "):
        library.text("../../secret")
