from matplotlib.colors import to_rgb

from simulations.methods import METHODS
from simulations.report.plot_style import bar_styles, line_styles, nested_styles, new_figure, save

LOOKS = {name: METHODS.find(name).look for name in (*METHODS.ours(), "fedau:0")}


def test_no_two_methods_look_the_same_in_colour_or_in_grey():
    styles = line_styles(LOOKS, LOOKS)
    assert len({style["color"] for style in styles.values()}) == len(LOOKS)
    greys = [sum(to_rgb(style["color"])) / 3 for style in styles.values()]
    lines = [str(style["linestyle"]) for style in styles.values()]
    for i in range(len(LOOKS)):
        for j in range(i):
            assert lines[i] != lines[j] or abs(greys[i] - greys[j]) > 0.15
    assert len({style["hatch"] for style in bar_styles(LOOKS, LOOKS).values()}) == len(LOOKS)


def test_what_has_no_look_of_its_own_takes_one_that_is_free():
    styles = line_styles([*LOOKS, "own"][1:], LOOKS)
    assert styles["own"]["color"] == LOOKS["fedau"].colour


def test_any_other_lines_differ_too():
    styles = line_styles(f"line {number}" for number in range(24))
    assert len({(s["color"], str(s["linestyle"])) for s in styles.values()}) == 24


def test_nested_lines_get_thinner_and_darker():
    styles = list(nested_styles("abc").values())
    assert [s["linewidth"] for s in styles] == sorted(
        (s["linewidth"] for s in styles), reverse=True
    )
    assert float(styles[0]["color"]) > float(styles[2]["color"]) == 0.0


def test_a_figure_is_saved_in_both_formats_and_the_same_every_time(tmp_path):
    figure, (axis,) = new_figure(3, 2)
    axis.plot([0, 1], [0, 1])
    png, svg = save(figure, tmp_path / "new" / "name-0.1")
    assert (png.name, svg.name) == ("name-0.1.png", "name-0.1.svg")
    assert png.read_bytes()[:4] == b"\x89PNG"
    first = svg.read_bytes()
    assert b"<svg" in first
    save(figure, tmp_path / "new" / "name-0.1")
    assert svg.read_bytes() == first
