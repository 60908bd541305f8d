"""A rank of a training run, played by a test: every loss that it pushes is a step.

    trainer = Trainer("exp-1")
    trainer.push(daemon, 1, 20, 20)
    trainer.push(daemon, goodbye="OUTCOME_FAILED")
"""

import time

import grpc

import contract

V1 = contract.load()
SECONDS = 30


class Trainer:
    """One rank of a run; every loss is a step."""

    def __init__(self, run, launch="one"):
        self.run = run
        self.launch = launch
        self.steps = 0

    def push(self, daemon, *losses, goodbye=None):
        request = V1.ingest.PushOnceRequest(hello=V1.ingest.Hello(
            run=self.run, launch_id=self.launch,
            client_instance=f"process-{self.run}-{self.launch}", world_size=1))
        for loss in losses:
            report = request.reports.add(seq=self.steps + 1, step=self.steps,
                                         time_unix_ns=time.time_ns(), phase="PHASE_TRAIN",
                                         last_of_step=True)
            batch = report.summaries.add().scalars
            if loss is losses[0]:
                batch.declare.add(id=1, name="loss", unit="nats", reduction="REDUCTION_LAST",
                                  scope="SCOPE_GLOBAL")
            batch.ids.append(1)
            batch.values.append(loss)
            self.steps += 1
        if goodbye:
            request.goodbye.CopyFrom(V1.ingest.Goodbye(outcome=goodbye))
        with grpc.insecure_channel(daemon.grpc) as channel:
            V1.ingest_grpc.IngestServiceStub(channel).PushOnce(request, timeout=SECONDS)
