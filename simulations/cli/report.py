"""The commands that make results: study, search, table, plot, export, pattern, …."""

from collections.abc import Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from simulations.cli.invocation import (
    Command,
    add_commands,
    end,
    method_list,
    seed_list,
    sentences,
    step_list,
)
from simulations.cli.options import ALL_METHODS, MakeResources, Seeds, Values, run_options
from simulations.config import ConfigError, RunConfig
from simulations.launch.runner import Resources, stopped
from simulations.methods import METHODS
from simulations.report import results
from simulations.report.runs import find_runs
from simulations.report.search import GLOBAL_GRID, LOCAL_GRID, Search
from simulations.report.studies import STUDIES, study_configs
from simulations.report.studies import study as study_of
from simulations.runs.estimate import duration, estimated_seconds
from simulations.runs.resumption import Step, run_missing
from simulations.tasks import DataError

_OWN = ("resume", "run_dir", "method", "seed")
_DRAWN = ("dataset", "clients", "alpha_data", "alpha_participation", "mean_participation",
          "min_participation", "draw", "data_dir")  # fmt: skip
"""What participation is drawn from, apart from the seed."""
_PROBABILITY = 0.527

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="Holds runs, at any depth.")]
Out = Annotated[Path | None, typer.Option(help="Where the files go; DIR by default.")]
EachSeed = Annotated[
    bool,
    typer.Option("--each-seed", help="The accuracy of each seed, instead of mean and deviation."),
]


def _listed(grid: Sequence[float]) -> str:
    return ",".join(f"{value:g}" for value in grid)


def table(
    directory: Directory,
    out: Out = None,
    each_seed: EachSeed = False,
    paired: Annotated[
        str | None,
        typer.Option(help="A method, as in fedau:50, to which the others are compared by seed."),
    ] = None,
) -> None:
    """Print tables of the runs in DIR, and write them as Markdown and CSV.

    Mean ± standard deviation over seeds, with the paper's numbers where settings match.
    """
    runs, where = find_runs(_resolved(directory)), _resolved(out or directory)
    reference = METHODS.find(paired) if paired else None
    results.show_tables(runs, where, Console(), each_seed=each_seed, reference=reference)


def plot(
    directory: Directory,
    out: Out = None,
    kinds: Annotated[
        str | None,
        typer.Option(
            help="Kinds of plots, with commas between them: curves, classes, clients, weights, "
            "cutoff, paper; all that there are results for by default."
        ),
    ] = None,
) -> None:
    """Draw the runs in DIR, as PNG and SVG."""
    chosen = method_list(kinds) if kinds else results.KINDS
    runs = find_runs(_resolved(directory))
    if not results.show_plots(runs, _resolved(out or directory), Console(), kinds=chosen):
        raise ConfigError(
            f"kinds is {', '.join(chosen)!r}, but must have one that these runs have results for."
        )


def export(
    directory: Directory,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Where the copies go.")],
    each_seed: EachSeed = False,
) -> None:
    """Copy the results of the runs in DIR that have ended to OUT, with tables, plots and page.

    Checkpoints, logs and the paths of this machine are left out: what is in OUT can be published,
    and `fedau table OUT` and `fedau plot OUT` work there.
    """
    from simulations.runs.export import export as copy  # noqa: PLC0415 -- it needs runs, as we do

    where, target = _resolved(directory), _resolved(out)
    copies = copy(find_runs(where), where, target)
    results.present(
        copies, target, Console(), each_seed=each_seed, copied_from=where, formats=("png",)
    )


@run_options(only=(*_DRAWN, "seed"))
def pattern(
    values: Values,
    out: Annotated[Path, typer.Option(help="Where the pictures go.")] = Path("pictures"),
    probability: Annotated[
        float, typer.Option(help="Of the one client whose patterns are shown; the paper has 0.527.")
    ] = _PROBABILITY,
    patterns: Annotated[
        str, typer.Option(help="Patterns as `fedau patterns` lists them, with commas between them.")
    ] = "bernoulli,markov,cyclic",
) -> None:
    """Draw participation patterns, and how participation differs between clients.

    Prints for each pattern how many clients there are, the share of them that is there, and the
    mean number of rounds between two turns of a client.
    """
    from simulations.report.participation import draw_participation  # noqa: PLC0415
    from simulations.report.patterns import pattern_line  # noqa: PLC0415

    if not 0 < probability <= 1:
        raise ConfigError(f"probability is {probability:g}, but must be in (0, 1].")
    config, chosen, console = RunConfig(**values), method_list(patterns), Console()
    where = _resolved(out)
    files = draw_participation(config, where, probability=probability, patterns=chosen)
    for text in chosen:
        console.print(pattern_line(config, text), highlight=False, soft_wrap=True)
    results.say_where(files, console)


@run_options(only=_DRAWN)
def participation_stats(
    values: Values,
    seeds: Seeds = "1-5",
    out: Annotated[Path | None, typer.Option(help="Write the table here, too.")] = None,
) -> None:
    """Print how often the clients and classes of each seed come, which makes it easy or hard."""
    # Matplotlib takes a second, which no command without pictures should wait for.
    from simulations.report.participation import participation_table  # noqa: PLC0415

    found, console = participation_table(RunConfig(**values), seed_list(seeds)), Console()
    results.show(found, console)
    if out:
        results.write_tables([found], _resolved(out), console)


@run_options(without=_OWN, optional=True)
def study(
    *,
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(STUDIES)}.")],
    values: Values,
    resources: MakeResources,
    methods: Annotated[
        str | None, typer.Option(help="Methods instead of the study's, with commas between them.")
    ] = None,
    seeds: Seeds = "1-5",
    out: Annotated[
        Path | None, typer.Option(help="Directory of the runs; ./runs/study-NAME by default.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the runs only.")] = False,
) -> None:
    """Run a study of the paper, then print its tables and draw its plots.

    What has been run already is not run again, and what was interrupted goes on. Options take the
    place of the study's own settings, which are those of the paper; --dataset and --pattern can
    have several values with commas. NAME is one of:

    main: the main table;
    heterogeneity: how much participation differs;
    low-participation: clients that hardly ever come;
    cutoff: accuracy against the cutoff K;
    spread: loss and accuracy over clients;
    weights: the weights against 1/p;
    patterns: pictures of participation;
    fedawe: the comparison in FedAWE's paper;
    privacy: our own, what differential privacy costs.
    """
    chosen, console = study_of(name), Console()
    parent = _resolved(out or Path("runs") / f"study-{name}")
    own = method_list(methods) if methods else None
    configs = study_configs(chosen, values, seeds=seed_list(seeds), parent=parent, methods=own)
    if not chosen.trains and dry_run:
        console.print("This study needs no training: it draws participation alone.")
    elif not chosen.trains:
        _draw_participation(name, [c for c in configs if c.seed == configs[0].seed], parent)
    else:
        _announce([Step.of(one) for one in configs], resources(), console, each=dry_run)
        if dry_run:
            return
        outcomes = run_missing(configs, resources(), console, where=parent)
        paths = (Path(config.run_dir) for config in configs)
        results.present(paths, parent, console, kinds=chosen.kinds)
        end(outcomes)


def _announce(steps: list[Step], resources: Resources, console: Console, *, each: bool) -> None:
    """Say what a study will do, and how long that takes on this machine."""
    for step in steps if each else ():
        console.print(str(step), highlight=False, soft_wrap=True)
    todo = [(step.config, step.reached) for step in steps if step.action != "done"]
    text = f"{len(steps)} runs, {len(steps) - len(todo)} of them done."
    if not todo:
        console.print(text, highlight=False)
        return
    try:
        seconds = estimated_seconds(todo, resources.worker_count)
        text += f" The others take about {duration(seconds)} on this machine, undisturbed."
    except (ConfigError, DataError) as error:
        text += f" How long the others take cannot be said: {error}"
    console.print(text, highlight=False, soft_wrap=True)


def _draw_participation(name: str, configs: list[RunConfig], out: Path) -> None:
    """Draw what depends on participation alone: patterns, or the weights that follow from it."""
    from simulations.report.participation import draw_participation, draw_replayed  # noqa: PLC0415

    if name == "patterns":
        files = draw_participation(configs[0], out, probability=_PROBABILITY)
    else:
        files = [file for config in configs for file in draw_replayed(config, out)]
    results.say_where(files, Console())


@run_options(without=(*_OWN, "lr", "server_lr"), optional=True)
def search(
    *,
    values: Values,
    resources: MakeResources,
    methods: Annotated[str, typer.Option(help="Methods, with commas between them.")] = ALL_METHODS,
    seeds: Annotated[str, typer.Option(help="Seeds, as in 1,2 or 1-5; losses are means.")] = "1",
    out: Annotated[
        Path | None, typer.Option(help="Directory of the runs; ./runs/search-DATASET by default.")
    ] = None,
    local_grid: Annotated[str, typer.Option(help="Values of γ.")] = _listed(LOCAL_GRID),
    global_grid: Annotated[str, typer.Option(help="Values of η.")] = _listed(GLOBAL_GRID),
) -> None:
    """Search for step sizes as the paper did, and print the table of losses with the choices.

    First γ with the smallest η, then η at the best γ, by the training loss after round 500, or as
    many as --rounds says. A loss that is no number counts as infinite.
    """
    console = Console()
    parent = _resolved(out or Path("runs") / f"search-{RunConfig(**values).task.slug}")
    grids = step_list("local-grid", local_grid), step_list("global-grid", global_grid)
    plan = Search(method_list(methods), values, seed_list(seeds), parent, grids=grids)
    outcomes: list[dict[str, Any]] = []

    def run_all(configs: list[RunConfig]) -> bool:
        outcomes.extend(run_missing(configs, resources(), console, where=parent))
        return not outcomes or not stopped(outcomes[-1])

    if plan.run(run_all):
        found = plan.table()
        results.show(found, console)
        results.write([found], parent)
    end(outcomes)


def _resolved(path: Path) -> Path:
    return path.expanduser().resolve()


def register(app: typer.Typer) -> None:
    """Add the commands that make results."""
    add_commands(app, study, search, table, plot, export, pattern, participation_stats)
    for old, command in (("keep", export), ("draws", participation_stats)):
        app.command(old, hidden=True)(sentences()(_deprecated(old, command)))


def _deprecated(old: str, command: Command) -> Command:
    """Return a command under its name of version 0.1."""

    @wraps(command)
    def renamed(**options: Any) -> None:
        new = command.__name__.replace("_", "-")
        typer.echo(f"`fedau {old}` is deprecated: it is `fedau {new}` now.", err=True)
        command(**options)

    return renamed
