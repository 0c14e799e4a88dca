"""The commands that make results: study, search, table, plot, export, pattern, …."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from simulations.cli.invocation import end, method_list, seed_list, sentences
from simulations.cli.listing import ALL_METHODS
from simulations.cli.options import run_options
from simulations.config import ConfigError, RunConfig
from simulations.launch.runner import Resources, stopped
from simulations.report.results import write
from simulations.report.runs import find_runs
from simulations.report.search import Search
from simulations.report.studies import STUDIES, Study, study_configs
from simulations.report.studies import study as study_of
from simulations.runs.resumption import Step, run_missing

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


def table(directory: Directory, out: Out = None, each_seed: EachSeed = False) -> None:
    """Print tables of the runs in DIR, and write them as Markdown and CSV.

    Mean ± standard deviation over seeds, with the paper's numbers where settings match.
    """
    from simulations.report.presentation import show_tables  # noqa: PLC0415 -- as below

    with sentences():
        where = directory.expanduser().resolve()
        show_tables(find_runs(where), _place(out, where), Console(), each_seed=each_seed)


def plot(
    directory: Directory,
    out: Out = None,
    kinds: Annotated[
        str | None,
        typer.Option(
            help="Kinds of plots, with commas between them: curves, classes, clients, weights, "
            "cutoff; all that there are results for by default."
        ),
    ] = None,
) -> None:
    """Draw the runs in DIR, as PNG and SVG."""
    # Matplotlib takes a second, which no other command should wait for.
    from simulations.report.plots import KINDS  # noqa: PLC0415
    from simulations.report.presentation import show_plots  # noqa: PLC0415

    with sentences():
        where = directory.expanduser().resolve()
        chosen = method_list(kinds) if kinds else KINDS
        runs = find_runs(where)
        if not show_plots(runs, _place(out, where), Console(), kinds=chosen):
            raise ConfigError(
                f"kinds is {', '.join(chosen)!r}, but must have one that these runs have results "
                "for."
            )


def export(
    directory: Directory,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Where the copies go.")],
    each_seed: EachSeed = False,
) -> None:
    """Copy the results of the runs in DIR that have ended to OUT, with tables and plots (PNG).

    Checkpoints, logs and the paths of this machine are left out: what is in OUT can be published,
    and `fedau table OUT` and `fedau plot OUT` work there.
    """
    from simulations.report.plots import KINDS  # noqa: PLC0415
    from simulations.report.presentation import present  # noqa: PLC0415
    from simulations.runs.export import export as copy  # noqa: PLC0415 -- as above

    with sentences():
        where, target = (path.expanduser().resolve() for path in (directory, out))
        copies = copy(find_runs(where), where, target)
        present(copies, target, Console(), kinds=KINDS, formats=("png",), each_seed=each_seed)


@run_options(only=(*_DRAWN, "seed"))
def pattern(
    values: dict[str, Any],
    out: Annotated[Path, typer.Option(help="Where the pictures go.")] = Path("pictures"),
    probability: Annotated[
        float, typer.Option(help="Of the one client whose patterns are shown; the paper has 0.527.")
    ] = _PROBABILITY,
) -> None:
    """Draw participation patterns, and how participation differs between clients."""
    with sentences():
        if not 0 < probability <= 1:
            raise ConfigError(f"probability is {probability:g}, but must be in (0, 1].")
        _pictures(RunConfig(**values), out.expanduser().resolve(), probability)


@run_options(only=_DRAWN)
def participation_stats(
    values: dict[str, Any],
    seeds: Annotated[str, typer.Option(help="Seeds, as in 1,2 or 1-5.")] = "1-5",
    out: Annotated[Path | None, typer.Option(help="Write the table here, too.")] = None,
) -> None:
    """Print how often the clients and classes of each seed come, which makes it easy or hard."""
    from simulations.report.participation_stats import participation_table  # noqa: PLC0415
    from simulations.report.presentation import show, write_tables  # noqa: PLC0415

    with sentences():
        found, console = participation_table(RunConfig(**values), seed_list(seeds)), Console()
        show(found, console)
        if out:
            write_tables([found], out.expanduser().resolve(), console)


@run_options(without=_OWN, optional=True)
def study(
    *,
    name: Annotated[
        str,
        typer.Argument(help=f"One of {', '.join(STUDIES)}."),
    ],
    values: dict[str, Any],
    resources: Callable[[], Resources],
    methods: Annotated[
        str | None,
        typer.Option(help="Methods instead of the study's, with commas between them."),
    ] = None,
    seeds: Annotated[str, typer.Option(help="Seeds, as in 1,2 or 1-5.")] = "1-5",
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
    patterns: pictures of participation.
    """
    with sentences():
        chosen, console = study_of(name), Console()
        parent = (out or Path("runs") / f"study-{name}").expanduser().resolve()
        configs = study_configs(
            chosen,
            values,
            seeds=seed_list(seeds),
            parent=parent,
            methods=method_list(methods) if methods else None,
        )
        if dry_run:
            _list(chosen, configs, console)
        elif chosen.trains:
            outcomes = run_missing(configs, resources(), console, where=parent)
            _present(chosen, configs, parent, console)
            end(outcomes)
        else:
            _draw_untrained(name, configs, parent, console)


def _list(chosen: Study, configs: list[RunConfig], console: Console) -> None:
    """Say what a study would do."""
    if not chosen.trains:
        console.print("This study needs no training: it draws participation alone.")
        return
    steps = [Step.of(config) for config in configs]
    for step in steps:
        console.print(str(step), highlight=False, soft_wrap=True)
    done = sum(step.action == "done" for step in steps)
    console.print(f"{len(steps)} runs, {done} of them done.", highlight=False)


def _present(chosen: Study, configs: list[RunConfig], parent: Path, console: Console) -> None:
    from simulations.report.presentation import present  # noqa: PLC0415 -- as above

    present((Path(config.run_dir) for config in configs), parent, console, kinds=chosen.kinds)


def _draw_untrained(name: str, configs: list[RunConfig], parent: Path, console: Console) -> None:
    """Draw what depends on participation alone, for the first seed."""
    from simulations.report.presentation import say_where  # noqa: PLC0415 -- as above
    from simulations.report.weight_paths import draw_replayed  # noqa: PLC0415

    first = [config for config in configs if config.seed == configs[0].seed]
    if name == "patterns":
        _pictures(first[0], parent, _PROBABILITY)
    else:
        say_where([file for config in first for file in draw_replayed(config, parent)], console)


def _pictures(config: RunConfig, out: Path, probability: float) -> None:
    from simulations.report.participation_plots import draw_participation  # noqa: PLC0415
    from simulations.report.presentation import say_where  # noqa: PLC0415

    say_where(draw_participation(config, out, probability=probability), Console())


@run_options(without=(*_OWN, "lr", "server_lr"), optional=True)
def search(
    *,
    values: dict[str, Any],
    resources: Callable[[], Resources],
    methods: Annotated[str, typer.Option(help="Methods, with commas between them.")] = ALL_METHODS,
    seeds: Annotated[str, typer.Option(help="Seeds, as in 1,2 or 1-5; losses are means.")] = "1",
    out: Annotated[
        Path | None, typer.Option(help="Directory of the runs; ./runs/search-DATASET by default.")
    ] = None,
) -> None:
    """Search for step sizes as the paper did, and print the table of losses with the choices.

    First γ in 0.01 … 0.316 with η = 1, then η in 1 … 31.6 at the best γ, by the training loss after
    round 500, or as many as --rounds says. A loss that is no number counts as infinite.
    """
    with sentences():
        console = Console()
        name = f"search-{RunConfig(**values).task.slug}"
        parent = (out or Path("runs") / name).expanduser().resolve()
        plan = Search(method_list(methods), values, seed_list(seeds), parent)
        outcomes: list[dict[str, Any]] = []

        def run_all(configs: list[RunConfig]) -> bool:
            outcomes.extend(run_missing(configs, resources(), console, where=parent))
            return not outcomes or not stopped(outcomes[-1])

        if plan.run(run_all):
            found = plan.table()
            console.print(found.rich(), soft_wrap=True)
            write([found], parent)
        end(outcomes)


def _place(out: Path | None, directory: Path) -> Path:
    return out.expanduser().resolve() if out else directory


def register(app: typer.Typer) -> None:
    """Add the commands that make results."""
    commands: tuple[Callable[..., None], ...] = (
        study, search, table, plot, export, pattern, participation_stats,
    )  # fmt: skip
    for command in commands:
        app.command()(command)
    for old, command in (("keep", export), ("draws", participation_stats)):
        app.command(old, hidden=True)(_deprecated(old, command))


def _deprecated(old: str, command: Callable[..., None]) -> Callable[..., None]:
    """Return a command under its name of version 0.1."""

    @wraps(command)
    def renamed(**options: Any) -> None:
        new = command.__name__.replace("_", "-")
        typer.echo(f"`fedau {old}` is deprecated: it is `fedau {new}` now.", err=True)
        command(**options)

    return renamed
