// The interface between the runtime and glue modules: the dispatcher object, the view of a tensor, and a table of C
// functions. Some structs in glue_arguments.h and glue.h belong to it as well: a call, its batch of launches, and a
// module's contents. Increase kTableVersion whenever any of these changes.
//
// The runtime is compiled once per environment, with torch's headers. A glue module is compiled for each kernel, with
// Python.h but without torch's headers, and reaches torch through the table, much as extensions use NumPy's C API.
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

// The problems that PyTorch's dispatcher handles. If a direct call meets one, it calls the kernel's operator instead.
constexpr uint32_t kForOperator = kNoStorage | kMeta | kWatched;

// The argument that a view describes.
inline PyObject* object_of(const TensorView& view) { return static_cast<PyObject*>(view.object); }

// Memory for the values in one call: copies of strings and lists, and objects that must live as long as the call.
class Values {
public:
    Values() = default;
    Values(const Values&) = delete;
    Values& operator=(const Values&) = delete;
    ~Values() {
        while (last_) {
            Block* const before = last_->before;
            // Python ends a thread that asks for the GIL during shutdown; the thread then runs this without the GIL
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
    // Allocates zeroed memory. If there is none, returns null and sets an exception.
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

    // Takes over the contents of another Values. This one must be empty.
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

// One launch: the arguments that a call passes to a launcher. A call over several devices has one launch per device.
struct Step {
    const TkjitLauncher* launcher;
    const TkjitArg* args;
    int32_t device;
    void* stream;
};

// A call whose arguments were checked once: its launches, and every object that must live as long as the launches do.
struct Prepared {
    Step steps[kMaxParallelDevices];
    int count = 0;
    int overload = 0;
    bool follows = false;  // each launch uses the stream that is current when it is made
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

// A parallel tensor, as seen by the process that holds one of the tensor's parts.
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

// A loaded kernel. The interpreter calls it through `vectorcall`, which is a function of the glue once the glue is
// attached.
struct Dispatcher {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    const Table* table;
    PyObject* glue;                          // the module that owns `vectorcall`
    const GlueEntry* entry;                  // the entry that it exports
    PyObject* result_types;                  // per overload: a named tuple's type, or None
    const TkjitLauncher** launchers;         // [device slot][variant over all overloads]; read and written atomically
    int variant_count;
};

// Unless noted otherwise, functions that return a pointer or a bool set a Python exception when they fail.
struct Table {
    uint32_t version;

    // Fills a view. Returns false if the object is neither a tensor nor an array; an exception from its own hooks stays
    // set.
    bool (*view)(PyObject* object, TensorView* view, Values* values);
    // Whether two tensors have an element at the same address. Returns false if this cannot be decided quickly.
    bool (*overlap)(const TensorView& view, const TensorView& other);
    bool (*overlaps_itself)(const TensorView& view);
    // Checks that a call's tensors, the last of which is `last`, have not changed since they were read, and raises an
    // error if one has. It runs no Python code, so the result holds until the GIL is released.
    bool (*confirm)(const char* kernel, const TensorView* last, const char* when);
    // Keeps a call's storages alive, and their sizes fixed, while the GIL is released. The caller must then call
    // let_go().
    void (*hold)(const TensorView* last);
    void (*let_go)(const TensorView* last);
    // Converts a tensor to an array from the same framework as `like`.
    PyObject* (*as_array)(PyObject* tensor, PyObject* like);
    // Allocates a contiguous tensor on the device of `like`. On the CPU, guard bytes may follow it.
    PyObject* (*empty)(const int64_t* sizes, int ndim, int32_t dtype, const TensorView& like, bool* guarded);
    // Whether the guard bytes after a call's tensors are unchanged. If they are not, raises an error unless `kernel` is
    // null.
    bool (*intact)(const char* kernel, const TensorView* last);
    // Finds the stream to launch on: `given`, or the device's current one. Sets `other` if it is not the current one.
    bool (*stream)(const char* kernel, PyObject* given, const TensorView& on, void** stream, bool* other);
    // Reports to torch's allocator that a stream other than the current one uses a tensor.
    bool (*record_stream)(PyObject* tensor, PyObject* stream, int device);
    // Finds or builds a variant's launcher, and stores it in the dispatcher.
    const TkjitLauncher* (*resolve)(Dispatcher* self, int overload, int variant, const TensorView& on);
    // Returns kWatched if a profiler or a torch mode must see calls, and kAutocast if autocast is on.
    uint32_t (*modes)();
    // Calls the kernel's operator. With `choose`, first finds the overload that accepts the arguments.
    PyObject* (*through_operator)(Dispatcher* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames, bool choose);
    // Informs autograd that a tensor was written to.
    bool (*written)(PyObject* tensor);
    // Returns a tensor's c10::TensorImpl. For other objects, returns null and sets an exception.
    void* (*impl)(PyObject* tensor);
    // Whether an object other than a Python bool is a single bool: a NumPy bool, or a tensor without dimensions.
    bool (*is_bool)(PyObject* object);
    // Whether an object can be used as a number: it is a single real value, and no gradient would be lost.
    bool (*is_number)(PyObject* object);

    // Reads a value according to its type's code (tkjit/spec/values.py). Returns false if the value has another type;
    // an exception from the value's own hooks stays set.
    bool (*read_value)(PyObject* object, const char* code, Values* values, TkjitArg* arg);

    // Takes random numbers, `draws` for each thread, from the given generator or the device's default one. Stores their
    // seed and offset in the argument.
    bool (*random)(const char* kernel, const char* name, PyObject* generator, int64_t draws, const TensorView& on, TkjitArg* arg);

    // Sets `on` to the device that an argument names.
    bool (*place)(const char* kernel, const char* name, const TkjitArg& device, TensorView* on);
    // Raises an error for a tensor that is not on the call's device.
    void (*refuse_place)(const char* kernel, const TensorView& view, const TensorView& on);
    // Raises an error for a constraint that is violated or cannot be computed, and shows the values that its names
    // have.
    void (*refuse_constraint)(const char* kernel, const char* text, const char* how, const Dim* values, int count);

    // Warns that an overload is deprecated. Returns false if the warning is raised as an error.
    bool (*deprecated)(const char* kernel, const char* text);

    // Reads a tkjit.ParallelTensor. Returns false without an exception for other objects.
    bool (*parallel)(PyObject* object, ParallelView* view);
    // Returns the club for a call over these devices, as a new reference: the given one, or the process's default club.
    PyObject* (*club)(const char* kernel, PyObject* given, DeviceType type, const int32_t* devices, int count);
    // Returns a club's stream for one of its devices, or null for the device's current stream. The reference is
    // borrowed.
    PyObject* (*club_stream)(PyObject* club, int dev_idx);
    // Makes the launches in the club's threads, and waits until all are made. `last` is the last tensor that they use.
    bool (*execute)(const char* kernel, PyObject* club, const Step* steps, int count, const TensorView* last);
    // Adds a launch, and every object that it uses, to the call's batch for later.
    bool (*launch_later)(glue::Call& call, const TkjitLauncher* launcher, const TkjitArg* args, size_t count, const TensorView& on,
                         void* stream);
    // Records which processes this thread's next launch may wait for (or null), and its GPU (or -1). If one of these
    // processes has ended, returns the reason to abort the launch, else null.
    const char* (*waits_on)(void* peers, int32_t device);

    // The exceptions from tkjit/errors.py.
    PyObject* argument_error;
    PyObject* shape_error;
    PyObject* launch_error;

    // Each of these functions raises an error that names the received value, the expected value and the remedy. If an
    // exception is already set, it becomes the cause.
    void (*refuse_tensor)(const char* kernel, const char* name, PyObject* object, const TensorView& view);
    void (*refuse_mismatch)(const char* kernel, const TensorView& view, const Expected& expected);
    void (*refuse_device)(const char* kernel, const TensorView& view, const TensorView& other);
    void (*refuse_object)(const char* kernel, const char* name, PyObject* object, const char* expected);
    // For arguments that do not fit the parameters. `number` is how many there are, or the index of a missing
    // parameter.
    void (*refuse_arguments)(const char* kernel, const glue::Signature& signature, glue::Misfit misfit, PyObject* name, Py_ssize_t number);
    // For a call that every overload has rejected, with each one's reason.
    void (*refuse_overloads)(glue::Call& call, const glue::Overload* overloads, int count);
    // For a launch that has failed, with the launcher's text. Keeps an exception that is already set.
    void (*refuse_launch)(const char* kernel, const char* error);
};

// The type of the `entry` capsule that a glue module exports. Except for calls, its code is in the runtime
// (glue_calls.h).
struct GlueEntry {
    uint32_t version;
    vectorcallfunc call;
    const glue::Contents* contents;
};
constexpr const char* kGlueCapsule = "tkjit.glue.entry";

// The end of a glue module: its init function, and a slot. load_inline passes the module's name as
// TORCH_EXTENSION_NAME, but the macro must not appear here, because a precompiled header that used it would serve only
// one module.
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
