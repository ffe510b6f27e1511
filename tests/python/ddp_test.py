"""Under DistributedDataParallel a rank reports its own seconds, without those in which it waits for other ranks."""

from own_work import OwnWorkTest
from support import main


class DistributedDataParallel(OwnWorkTest):
    def test_readmes_loop_learns_the_slowdown_of_a_rank(self):
        self.check("ddp", "timed")

    def test_so_does_one_that_reduces_once_a_step(self):
        self.check("ddp", "timed", "no_sync")

    def test_so_do_attached_modules(self):
        self.check("ddp", "attach")

    def test_so_do_attached_modules_that_a_checkpoint_computes_again(self):
        self.check("ddp", "attach", "checkpoint")


if __name__ == "__main__":
    main()
