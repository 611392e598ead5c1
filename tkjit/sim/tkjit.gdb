# gdb commands for kernels that run on the CPU. `python -m tkjit debug -- python program.py` loads them.
#
#   tkjit threads      the running block's threads, grouped by state; for those that wait, the operation and the line
#   tkjit thread 37    the stack of the thread with linear index 37 in the block
#
# A CUDA thread is a fiber with its own stack (runtime/fiber.h). While it does not run, its registers are saved there.
python
import gdb

SAVED = ["r15", "r14", "r13", "r12", "rbx", "rbp", "rip"]  # as tkjit_sim_switch pushes them, lowest address first


def running_block():
    block = gdb.parse_and_eval("tkjit::sim::current_block")
    if int(block) == 0:
        raise gdb.GdbError("no kernel is running in this thread; stop in one first: break FILE.cu:LINE")
    return block.dereference()


def index_text(index):
    return "(%d, %d, %d)" % tuple(int(index[axis]) for axis in "xyz")


def state_of(block, number):
    """Describe what a thread does; threads that do the same have the same description."""
    if number >= int(block["started"]):
        return "not started"
    thread = block["threads"][number]
    if thread.address == gdb.parse_and_eval("tkjit::sim::current_thread.thread_"):
        return "runs"
    if thread["exited"]:
        return "exited"
    waits = str(thread["waiting_in"]).rsplit("::", 1)[-1]
    if waits == "none":
        return "ready"
    return "waits in %s at %s:%d" % (waits, thread["site"]["file"].string(), int(thread["site"]["line"]))


class Tkjit(gdb.Command):
    """Look at a kernel that runs on the CPU: tkjit threads, tkjit thread N."""

    def __init__(self):
        super().__init__("tkjit", gdb.COMMAND_STACK, prefix=True)


class Threads(gdb.Command):
    """List the running block's threads, grouped by what they do."""

    def __init__(self):
        super().__init__("tkjit threads", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        block = running_block()
        count = int(block["thread_count"])
        print("block %s, %d threads" % (index_text(gdb.parse_and_eval("::blockIdx")), count))
        first = 0
        for number in range(1, count + 1):
            state = state_of(block, first)
            if number < count and state_of(block, number) == state:
                continue
            who = "thread %d" % first if number - 1 == first else "threads %d to %d" % (first, number - 1)
            print("  %s: %s" % (who, state))
            first = number


class Thread(gdb.Command):
    """Show the stack of a thread, given its linear index in the block."""

    def __init__(self):
        super().__init__("tkjit thread", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        block = running_block()
        number = gdb.parse_and_eval(argument or "-1")
        if not 0 <= int(number) < int(block["thread_count"]):
            raise gdb.GdbError("expected a thread's linear index in the block, as in: tkjit thread 37")
        state = state_of(block, int(number))
        print("thread %d: %s" % (int(number), state))
        if state == "runs":
            gdb.execute("backtrace")
        if not state.startswith(("waits", "ready")):
            return
        saved = block["threads"][int(number)]["context"]["saved"].cast(gdb.lookup_type("unsigned long").pointer())
        registers = {name: int(saved[place]) for place, name in enumerate(SAVED)}
        registers["rsp"] = int(saved) + 8 * len(SAVED)
        gdb.execute("select-frame 0")
        before = {name: int(gdb.parse_and_eval("(unsigned long)$" + name)) for name in registers}
        try:
            for name, value in registers.items():
                gdb.execute("set $%s = %d" % (name, value), to_string=True)
            gdb.execute("backtrace")
        finally:
            for name, value in before.items():
                gdb.execute("set $%s = %d" % (name, value), to_string=True)


Tkjit()
Threads()
Thread()
end
