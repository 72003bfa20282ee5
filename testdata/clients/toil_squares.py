"""A workflow of Toil: three jobs at once, and one that follows with what they have returned."""
import toil

toil.checkDockerImageExists = lambda appliance: appliance  # which asks a registry; the image was imported

from toil.common import Toil
from toil.job import Job

little = {"cores": 0.1, "memory": "100M", "disk": "10M"}


def square(job, n):
    return n * n


def add(job, parts):
    return sum(parts)


def fan(job):
    parts = [job.addChildJobFn(square, n, **little).rv() for n in (1, 2, 3)]
    return job.addFollowOnJobFn(add, parts, **little).rv()


if __name__ == "__main__":
    options = Job.Runner.getDefaultArgumentParser().parse_args()
    options.clean = "always"
    with Toil(options) as workflow:
        print("The sum is", workflow.start(Job.wrapJobFn(fan, **little)))
