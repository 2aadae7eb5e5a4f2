"""Pipelines: names, options, what is shown, and what is refused."""

import pytest

import tensorir as ti
from tensorir.passes import Inline, Simplify, Temporaries

SOURCE = """f(out: tensor<float, I[0:4]>, inp: tensor<float, I[0:5]>) {
  out ← (λ(x: tensor<float, I[0:5]>) → ⟪I, 1⟫(x) × 1.0)(inp);
}"""


def test_a_pipeline_reads_names_and_options():
    assert ti.Pipeline("inline, temporaries(min_uses=3, costly=4)").passes == (Inline(), Temporaries(3, costly=4.0))


def test_a_pipeline_prints_as_it_was_written():
    assert str(ti.Pipeline("inline(keep=true), simplify")) == "inline(keep=True), simplify"


def test_what_changed_is_shown_between_passes():
    seen = []
    ti.Pipeline([Inline(), Simplify(), Simplify()], show=seen.append)(ti.parse(SOURCE))
    assert [s.splitlines()[0] for s in seen] == ["after inline:", "after simplify:"]


def test_bound_constants_stay_bound():
    f = ti.parse("f(out: tensor<float, I[0:2]>, x: tensor<float, I[0:2]>, a: tensor<float>) { out ← a × (x × 1.0); }")
    g = ti.Pipeline("simplify")(f.bind(a=3.0))
    assert g(x=[1.0, 2.0])["out"].tolist() == [3.0, 6.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "inline, sce",
            "<pipeline>:1:9: error[N20]: there is no pass 'sce'.\n"
            "  inline, sce\n          ^^^\nhelp: did you mean 'cse'?",
        ),
        (
            "temporaries(min_use=2)",
            "<pipeline>:1:13: error[N21]: the pass 'temporaries' has no option 'min_use'.\n"
            "  temporaries(min_use=2)\n              ^^^^^^^^^\nhelp: did you mean 'min_uses'?",
        ),
        (
            "temporaries(min_uses=two)",
            "<pipeline>:1:13: error[T50]: the option 'min_uses' is a whole number.\n"
            "  temporaries(min_uses=two)\n              ^^^^^^^^^^^^\nhelp: its default is 2.",
        ),
        (
            "inline cse",
            "<pipeline>:1:1: error[S20]: a pipeline is names of passes with commas between them.\n"
            "  inline cse\n  ^^^^^^^^^^\n"
            'help: write Pipeline("inline, temporaries(min_uses=2)").',
        ),
    ],
)
def test_a_wrong_pipeline_is_refused_at_its_place(text, message):
    with pytest.raises(ti.DiagnosticError) as caught:
        ti.Pipeline(text)
    assert str(caught.value) == message
