import math

from simulations.report.table import Spread, Table


def test_a_spread_has_mean_and_sample_deviation():
    spread = Spread.of([0.7, 0.8, 0.9])
    assert math.isclose(spread.mean, 80.0)
    assert math.isclose(spread.std, 10.0)
    assert str(spread) == "80.0 ± 10.0"
    assert str(Spread.of([0.5])) == "50.0"
    assert str(Spread.of([1.5, math.nan], scale=1.0)) == "no number"


def made() -> Table:
    rows = [["a|b", Spread(1.0, 0.25), ""], ["c", Spread(2.0), ""], ["d", Spread(math.nan), ""]]
    return Table("name", "Title", ["method", "value", "empty"], rows, remark="Remark.")


def test_markdown():
    assert made().without_empty_columns().markdown() == (
        "## Title\n\n| method | value |\n| --- | --- |\n| a\\|b | 1.0 ± 0.2 |\n| c | 2.0 |\n"
        "| d | no number |\n\nRemark.\n"
    )


def test_csv_has_mean_and_deviation_apart():
    assert made().without_empty_columns().csv() == (
        "method,value mean,value std\na|b,1,0.25\nc,2,\nd,,\n"
    )


def test_the_terminal_gets_the_same_cells():
    table = made().rich()
    assert [column.header for column in table.columns] == ["method", "value", "empty"]
    assert list(table.columns[1].cells) == ["1.0 ± 0.2", "2.0", "no number"]


def test_a_loss_on_its_way_to_infinity_is_not_written_out():
    assert str(Spread.of([2.2244e24], scale=1.0, digits=3)) == "2.2e+24"
    assert str(Spread.of([12345.6789], scale=1.0, digits=3)) == "12345.679"
