"""What is left to do of a list of runs, so that a long study can be interrupted and repeated."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from rich.console import Console

from simulations.config import ConfigError, RunConfig
from simulations.launch.runner import Resources, run_all
from simulations.registry import check
from simulations.runs.directory import RunDirectory


@dataclass(frozen=True)
class Step:
    """A run of a list, and what there is to do: ``run``, ``resume``, ``run again`` or ``done``."""

    config: RunConfig
    action: str
    reached: int = 0

    @classmethod
    def of(cls, config: RunConfig) -> Self:
        """Look at the directory of a run; other settings there are an error."""
        run = RunDirectory(Path(config.run_dir))
        if not run.config_file.exists():
            return cls(config, "run")
        saved = run.config()
        try:
            config.same_training(replace(saved, run_dir=config.run_dir))
        except ConfigError as error:
            raise ConfigError(f"{run.path} is a run of other settings: {error}") from None
        outcome = run.outcome()
        reached = max([outcome["round"], *(entry["round"] for entry in run.metrics())])
        if outcome["status"] == "diverged":
            return cls(config, "done", reached)
        rule = f"at least {reached}, which {run.path} has done already"
        check("rounds", config.rounds, config.rounds >= reached, rule)
        if outcome["status"] == "finished" and reached == config.rounds:
            return cls(config, "done", reached)
        # A run that did not get to its first checkpoint, which is one of round 0, left nothing.
        return cls(config, "resume" if run.checkpoint_file.is_file() else "run again", reached)

    def prepared(self) -> RunConfig:
        """Return the settings with which to run."""
        run = RunDirectory(Path(self.config.run_dir))
        if self.action == "run again":
            run.check_free()
            run.config_file.unlink()
        if self.action != "resume":
            return self.config
        saved = run.config()
        kernel = saved.kernel if self.config.kernel == "auto" else self.config.kernel
        return replace(self.config, resume=True, kernel=kernel)

    def __str__(self) -> str:
        name = Path(self.config.run_dir)
        rounds = self.config.rounds
        where = f"round {self.reached} of {rounds}" if self.reached else f"{rounds} rounds"
        return f"{self.action:9}  {name.parent.name}/{name.name}  {where}"


def run_missing(
    configs: Iterable[RunConfig], resources: Resources, console: Console, *, where: Path
) -> list[dict[str, Any]]:
    """Run what has not been run yet, go on with what was interrupted, and return the outcomes."""
    steps = [Step.of(config) for config in configs]
    todo = [step for step in steps if step.action != "done"]
    if len(todo) < len(steps):
        console.print(f"{len(steps) - len(todo)} of {len(steps)} runs are done already.")
    if not todo:
        return []
    return run_all([step.prepared() for step in todo], resources, console, where=where)
