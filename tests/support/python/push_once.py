"""Runs of scalars, pushed by one rank through PushOnce, as fast as a daemon takes them."""

import time

import contract

BATCH = 2000
V1 = contract.load()


def push(stub, run, names, steps, of, first=0):
    """Scalars `names` of one rank at the steps [first, steps); `of(i, step)` is a value."""
    hello = V1.ingest.Hello(run=run, launch_id="one", client_instance=f"bench-{run}", world_size=1)
    for begin in range(first, steps, BATCH):
        request = V1.ingest.PushOnceRequest(hello=hello)
        for step in range(begin, min(begin + BATCH, steps)):
            report = request.reports.add(seq=step + 1, step=step, time_unix_ns=time.time_ns(),
                                         phase="PHASE_TRAIN", last_of_step=True)
            batch = report.summaries.add().scalars
            for i, name in enumerate(names):
                if step == begin:
                    batch.declare.add(id=i + 1, name=name, unit="1", reduction="REDUCTION_LAST",
                                      scope="SCOPE_GLOBAL")
                batch.ids.append(i + 1)
                batch.values.append(of(i, step))
        stub.PushOnce(request, timeout=600)
