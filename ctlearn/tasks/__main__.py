"""Train every memory on every task of `ctlearn.tasks.trained_recall`: a table.

Run as `python -m ctlearn.tasks --seed 5`; `--help` lists what can be set.
"""

import argparse

from ctlearn.tasks.trained_recall import MEMORIES, TASKS, train
from ctlearn.tasks.training import setting


def main() -> None:
    """Print shares of right answers, and where the memories that fade do so."""
    parser = argparse.ArgumentParser(description="Train every memory on every task.")
    parser.add_argument("--seed", type=int, default=0, help="of all that is drawn")
    parser.add_argument("--seeds", type=int, help="layers side by side")
    parser.add_argument("--rate", type=float, nargs="+", default=[0.03])
    given = parser.parse_args()
    where = setting()
    where = where._replace(seeds=given.seeds or where.seeds)
    for task_name, task in TASKS.items():
        for name, kind in MEMORIES.items():
            for rate in given.rate:
                trained = train(task, kind, rate=rate, seed=given.seed, where=where)
                share = trained.accuracy
                row = f"{task_name:14} {name:13} rate {rate:<6g}"
                row += f"{share.mean():.3f} ± {share.std():.3f}"
                if task.documents > 1 and kind.fades:
                    row += f"   keeps {trained.kept_at_new.mean():.3f} at new"
                    row += f" and {trained.kept_at_pairs.mean():.3f} at pairs"
                print(row, flush=True)


if __name__ == "__main__":
    main()
