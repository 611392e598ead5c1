// The interface between the runtime and glue modules: the dispatcher object, the view of a tensor, and a table of C
// functions. The structs of glue_arguments.h and glue.h belong to it as well: a call, its batch of launches, and the
// contents of a module. A change to any of these needs another kTableVersion.
//
// The runtime is compiled once per environment, with torch's headers. A glue module is compiled per kernel, with
// Python.h and none of torch's headers. It reaches torch through the table, much as with NumPy's C API.
#pragma once

#include <Python.h>

#include <tkjit/call/view.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace tkjit {

constexpr uint32_t kTableVersion = 11;
constexpr int kMaxDevices = 16;                 // Python looks up the launchers of further devices
constexpr int kDeviceSlots = 1 + kMaxDevices;   // slot 0 is the CPU
constexpr int kMaxParallelDevices = 32;        // as in include/tkjit/pgl.h

// The problems that PyTorch's dispatcher handles. A direct call that meets one becomes a call of the kernel's operator.
constexpr uint32_t kForOperator = kNoStorage | kMeta | kWatched;

// The argument that a view was read from.
inline PyObject* object_of(const TensorView& view) { return static_cast<PyObject*>(view.object); }

// Memory for the values of one call: copies of strings and lists, and objects that must live as long.
class Values {
public:
    Values() = default;
    Values(const Values&) = delete;
    Values& operator=(const Values&) = delete;
    ~Values() {
        while (last_) {
            Block* const before = last_->before;
            // a thread that asks for the GIL while the interpreter ends is ended there, and runs this without the GIL
            if (last_->object && PyGILState_Check()) Py_DECREF(last_->object);
            std::free(last_);
            last_ = before;
        }
    }
    // Steals a reference, and releases it in the destructor.
    bool keep(PyObject* object) {
        if (!make<char>(0)) {
            Py_DECREF(object);
            return false;
        }
        last_->object = object;
        return true;
    }
    // Allocates zeroed memory. Returns null with an exception if there is none.
    template <class T>
    T* make(size_t count) {
        const size_t bytes = sizeof(Block) + count * sizeof(T);
        auto* const block = static_cast<Block*>(std::calloc(1, bytes));
        if (!block) {
            PyErr_NoMemory();
            return nullptr;
        }
        block->before = last_;
        last_ = block;
        return reinterpret_cast<T*>(block + 1);
    }

    // Takes over the contents of another object. This one must be empty.
    void take(Values& other) {
        last_ = other.last_;
        other.last_ = nullptr;
    }

private:
    struct alignas(16) Block {
        Block* before;
        PyObject* object;  // a kept object, or null
    };
    Block* last_ = nullptr;
};

// One launch: what a call passes to a launcher. A call over several devices has one for each device.
struct Step {
    TkjitLaunch launch;
    const TkjitArg* args;
    int32_t device;
    void* stream;
};

// A call whose arguments were checked once: its launches, and everything that must live as long as they do.
struct Prepared {
    Step steps[kMaxParallelDevices];
    int count = 0;
    int overload = 0;
    bool follows = false;  // each launch uses the stream that is current at that time
    const TensorView* tensors = nullptr;
    void* peers = nullptr;
    PyObject* club = nullptr;     // in a call over several devices; borrowed from `values`
    PyObject* written = nullptr;  // a list
    PyObject* held = nullptr;     // a list of scratch, or null
    PyObject* result = nullptr;
    Values values;

    Prepared() = default;
    Prepared(const Prepared&) = delete;
    Prepared& operator=(const Prepared&) = delete;
    ~Prepared() {
        for (PyObject* const object : {written, held, result}) Py_XDECREF(object);
    }
};

// A parallel tensor, as seen by the process that holds one of its parts.
struct ParallelView {
    PyObject* tensor = nullptr;  // this process's part; borrowed
    TkjitParallel layout{};
    void* peers = nullptr;  // the processes of its group
    PyObject* owner = nullptr;  // keeps all of these alive; a new reference
};

struct Table;
struct GlueEntry;

// Defined in glue_arguments.h and glue.h.
namespace glue {
struct Call;
struct Contents;
struct Overload;
struct Signature;
enum class Misfit : int;
}  // namespace glue

// A loaded kernel. The interpreter calls it through `vectorcall`, a function of the glue once that is attached.
struct Dispatcher {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    const Table* table;
    PyObject* glue;                          // the module that owns `vectorcall`
    const GlueEntry* entry;                  // the entry that it exports
    PyObject* result_types;                  // per overload: a named tuple's type, or None
    TkjitLaunch* launchers;                  // [device slot][variant over all overloads]; read and written atomically
    int variant_count;
};

// Unless noted otherwise, functions that return a pointer or a bool set a Python exception if they fail.
struct Table {
    uint32_t version;

    // Fills a view. False if the object is neither a tensor nor an array; an exception from its own hooks stays set.
    bool (*view)(PyObject* object, TensorView* view, Values* values);
    // Whether two tensors have an element at the same address. False if this cannot be decided quickly.
    bool (*overlap)(const TensorView& view, const TensorView& other);
    bool (*overlaps_itself)(const TensorView& view);
    // Whether a call's tensors, of which `last` is the last, have not changed since they were read. Raises an error if
    // one has. It runs no Python code, so its result holds until the GIL is released.
    bool (*confirm)(const char* kernel, const TensorView* last, const char* when);
    // Keeps the storages of a call's tensors alive and at their size while the GIL is released. let_go() must follow.
    void (*hold)(const TensorView* last);
    void (*let_go)(const TensorView* last);
    // Converts a tensor to an array of the framework of `like`.
    PyObject* (*as_array)(PyObject* tensor, PyObject* like);
    // Allocates a contiguous tensor on the device of `like`. On the CPU, guard bytes may follow it.
    PyObject* (*empty)(const int64_t* sizes, int ndim, int32_t dtype, const TensorView& like, bool* guarded);
    // Whether the guard bytes after a call's tensors are unchanged. Raises an error if not, unless `kernel` is null.
    bool (*intact)(const char* kernel, const TensorView* last);
    // Finds the stream to launch on: `given`, or the device's current one. Sets `other` if it is not the current one.
    bool (*stream)(const char* kernel, PyObject* given, const TensorView& on, void** stream, bool* other);
    // Tells torch's allocator that a stream other than the current one uses a tensor.
    bool (*record_stream)(PyObject* tensor, PyObject* stream, int device);
    // Finds or builds a variant's launcher, and stores it in the dispatcher.
    TkjitLaunch (*resolve)(Dispatcher* self, int overload, int variant, const TensorView& on);
    // kWatched if a profiler or a torch mode must see calls, and kAutocast if autocast is on.
    uint32_t (*modes)();
    // Calls the kernel's operator. With `choose`, calls the overload that takes the arguments as they are.
    PyObject* (*through_operator)(Dispatcher* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames, bool choose);
    // Tells autograd that a tensor was written to.
    bool (*written)(PyObject* tensor);
    // The c10::TensorImpl of a tensor; null with an exception for other objects.
    void* (*impl)(PyObject* tensor);
    // Whether an object other than a Python bool is a single bool: a NumPy bool, or a tensor without dimensions.
    bool (*is_bool)(PyObject* object);
    // Whether an object may stand for a number: it is a single real value, without a gradient that would be lost.
    bool (*is_number)(PyObject* object);

    // Reads a value by its type's code (tkjit/spec/values.py). False if it has another type; an exception that its own
    // hooks raised stays set.
    bool (*read_value)(PyObject* object, const char* code, Values* values, TkjitArg* arg);

    // Takes random numbers, `draws` for each thread, from the given generator or the device's default one. The argument
    // gets their seed and offset.
    bool (*random)(const char* kernel, const char* name, PyObject* generator, int64_t draws, const TensorView& on, TkjitArg* arg);

    // Sets `on` to the device that an argument names.
    bool (*place)(const char* kernel, const char* name, const TkjitArg& device, TensorView* on);
    // Raises an error for a tensor that is not on the call's device.
    void (*refuse_place)(const char* kernel, const TensorView& view, const TensorView& on);
    // Raises an error for a constraint that does not hold or cannot be computed, with the values of its names.
    void (*refuse_constraint)(const char* kernel, const char* text, const char* how, const Dim* values, int count);

    // Warns of a deprecated overload. False if the warning is raised as an error.
    bool (*deprecated)(const char* kernel, const char* text);

    // Reads a tkjit.ParallelTensor. False without an exception for other objects.
    bool (*parallel)(PyObject* object, ParallelView* view);
    // The club for a call over these devices: the given one, or the process's default club. A new reference.
    PyObject* (*club)(const char* kernel, PyObject* given, DeviceType type, const int32_t* devices, int count);
    // A club's stream for one of its devices, or null for the device's current one. Borrowed.
    PyObject* (*club_stream)(PyObject* club, int dev_idx);
    // Makes the launches in the club's threads, and waits until all are made. `last` is the last of their tensors.
    bool (*execute)(const char* kernel, PyObject* club, const Step* steps, int count, const TensorView* last);
    // Adds a launch and everything that it uses to the call's batch, for later.
    bool (*launch_later)(glue::Call& call, TkjitLaunch launcher, const TkjitArg* args, size_t count, const TensorView& on, void* stream);
    // Records the processes that this thread's next launch may wait for, or null for none, and its GPU, or -1. Returns
    // the reason to abort the launch if one of them has ended, else null.
    const char* (*waits_for)(void* peers, int32_t device);

    // The exceptions of tkjit/errors.py.
    PyObject* argument_error;
    PyObject* shape_error;
    PyObject* launch_error;

    // Each raises an error: what was received, what was expected, what to do. An exception that is set is its cause.
    void (*refuse_tensor)(const char* kernel, const char* name, PyObject* object, const TensorView& view);
    void (*refuse_mismatch)(const char* kernel, const TensorView& view, const Expected& expected);
    void (*refuse_device)(const char* kernel, const TensorView& view, const TensorView& other);
    void (*refuse_object)(const char* kernel, const char* name, PyObject* object, const char* expected);
    // For arguments that do not fit the parameters: `number` is their number, or the index of a missing parameter.
    void (*refuse_arguments)(const char* kernel, const glue::Signature& signature, glue::Misfit misfit, PyObject* name, Py_ssize_t number);
    // For a call that every overload has rejected, with each one's reason.
    void (*refuse_overloads)(glue::Call& call, const glue::Overload* overloads, int count);
    // For a launch that has failed, with the launcher's text. Keeps an exception that is already set.
    void (*refuse_launch)(const char* kernel, const char* error);
};

// The capsule `entry` that a glue module exports. The runtime has the code for everything but a call (glue_calls.h).
struct GlueEntry {
    uint32_t version;
    vectorcallfunc call;
    const glue::Contents* contents;
};
constexpr const char* kGlueCapsule = "tkjit.glue.entry";

// The end of a module: its init function, and a slot. load_inline passes the module's name as TORCH_EXTENSION_NAME,
// which must not appear here: a precompiled header that used this macro would serve only one module.
#define TKJIT_JOIN(a, b) a##b
#define TKJIT_INIT(name) TKJIT_JOIN(PyInit_, name)
#define TKJIT_MODULE(name, definition) \
    PyMODINIT_FUNC TKJIT_INIT(name)() { return PyModuleDef_Init(&definition); }
#ifdef Py_GIL_DISABLED
#define TKJIT_NEEDS_NO_GIL {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#else
#define TKJIT_NEEDS_NO_GIL
#endif

}  // namespace tkjit
