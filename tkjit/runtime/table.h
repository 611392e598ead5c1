// What the runtime and a glue module share: the dispatcher object, a tensor's view, and a table of C functions; and of
// glue_arguments.h and glue.h a call, its batch of launches, and what a module consists of (`glue::Contents`). A change of any
// of these needs another kTableVersion.
//
// The runtime is compiled once per environment and knows torch's headers; a glue module is compiled per kernel and includes
// Python.h alone. All that a glue module needs of torch it reaches through the table, as NumPy's C API does.
#pragma once

#include <Python.h>

#include <tkjit/call/view.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace tkjit {

constexpr uint32_t kTableVersion = 11;
constexpr int kMaxDevices = 16;                 // launchers of devices beyond are looked up in Python
constexpr int kDeviceSlots = 1 + kMaxDevices;   // slot 0 is the CPU
constexpr int kMaxParallelDevices = 32;        // of a parallel layout: include/tkjit/pgl.h

// What torch's own dispatcher deals with: a direct call that meets it becomes a call of the kernel's operator.
constexpr uint32_t kForOperator = kNoStorage | kMeta | kWatched;

// What came for a tensor.
inline PyObject* object_of(const TensorView& view) { return static_cast<PyObject*>(view.object); }

// Memory for the values of one call: what a string or a list is copied to, and objects that must live as long.
class Values {
public:
    Values() = default;
    Values(const Values&) = delete;
    Values& operator=(const Values&) = delete;
    ~Values() {
        while (last_) {
            Block* const before = last_->before;
            // a thread that asks for the GIL while the interpreter ends is ended there, and runs this without it
            if (last_->object && PyGILState_Check()) Py_DECREF(last_->object);
            std::free(last_);
            last_ = before;
        }
    }
    // Takes a reference over, until the call is done.
    bool keep(PyObject* object) {
        if (!make<char>(0)) {
            Py_DECREF(object);
            return false;
        }
        last_->object = object;
        return true;
    }
    // Zeroed; null, with an exception, if there is no memory.
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

    // What another one holds; this one holds nothing yet.
    void take(Values& other) {
        last_ = other.last_;
        other.last_ = nullptr;
    }

private:
    struct alignas(16) Block {
        Block* before;
        PyObject* object;  // one that is kept, or null
    };
    Block* last_ = nullptr;
};

// One launch: what a call passes to a launcher. A kernel over several devices has one for each.
struct Step {
    TkjitLaunch launch;
    const TkjitArg* args;
    int32_t device;
    void* stream;
};

// A call whose arguments were checked once: its launches, and what lives as long as they may be made.
struct Prepared {
    Step steps[kMaxParallelDevices];
    int count = 0;
    int overload = 0;
    bool follows = false;  // each launch is in the stream that is current then
    const TensorView* tensors = nullptr;
    void* peers = nullptr;
    PyObject* club = nullptr;     // of a call over several devices; borrowed of `values`
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

// A parallel tensor as the process that holds one part of it sees it.
struct ParallelView {
    PyObject* tensor = nullptr;  // the part of this process; borrowed
    TkjitParallel layout{};
    void* peers = nullptr;  // the processes of its group
    PyObject* owner = nullptr;  // holds all of these; a new reference
};

struct Table;
struct GlueEntry;

// Of rendered glue (glue_arguments.h).
namespace glue {
struct Call;
struct Contents;
struct Overload;
struct Signature;
enum class Misfit : int;
}  // namespace glue

// A loaded kernel, as the interpreter calls it: `vectorcall` is the glue's own function.
struct Dispatcher {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    const Table* table;
    PyObject* glue;                          // the module that owns `vectorcall`
    const GlueEntry* entry;                  // what it exports
    PyObject* result_types;                  // per overload: a named tuple's type, or None
    TkjitLaunch* launchers;                  // [device slot][variant over all overloads]; read and written atomically
    int variant_count;
};

// Functions that return a pointer or a bool set a Python exception where they fail.
struct Table {
    uint32_t version;

    // Fills a view. False if the object is no tensor, and no array that DLPack shows; with the exception of its own hooks, if
    // they raised one.
    bool (*view)(PyObject* object, TensorView* view, Values* values);
    // Whether an element of a tensor lies where one of another does; of such as cannot be told in a moment it is not.
    bool (*overlap)(const TensorView& view, const TensorView& other);
    bool (*overlaps_itself)(const TensorView& view);
    // Whether a call's tensors, the last of which this is, are still what was read of them. Raises if not. No Python code
    // runs in it, so that what it has found is true until the GIL is released.
    bool (*confirm)(const char* kernel, const TensorView* last, const char* when);
    // Keeps the storages of a call's tensors alive, and of one size, while the GIL is released; false if there is nobody to
    // keep them from. What is held must be let go of.
    void (*hold)(const TensorView* last);
    void (*let_go)(const TensorView* last);
    // A tensor as an array of another array's framework.
    PyObject* (*as_array)(PyObject* tensor, PyObject* like);
    // A new contiguous tensor of the same device as `like`; on the CPU guard bytes may lie behind it.
    PyObject* (*empty)(const int64_t* sizes, int ndim, int32_t dtype, const TensorView& like, bool* guarded);
    // Whether the guard bytes behind a call's tensors are as they were. Raises if not, unless `kernel` is null.
    bool (*intact)(const char* kernel, const TensorView* last);
    // The stream to launch on: `given`, or the device's current one; `other` says that it is not the current one.
    bool (*stream)(const char* kernel, PyObject* given, const TensorView& on, void** stream, bool* other);
    // Tells torch's allocator that a stream other than the current one uses a tensor.
    bool (*record_stream)(PyObject* tensor, PyObject* stream, int device);
    // Finds or builds a variant's launcher, and remembers it in the dispatcher.
    TkjitLaunch (*resolve)(Dispatcher* self, int overload, int variant, const TensorView& on);
    // kWatched if a profiler or a mode of torch's wants to see calls; kAutocast.
    uint32_t (*modes)();
    // The call as one of the kernel's operator; with `choose` of the overload that takes the arguments as they are.
    PyObject* (*through_operator)(Dispatcher* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames, bool choose);
    // Tells autograd that a tensor was written to.
    bool (*written)(PyObject* tensor);
    // The c10::TensorImpl of a tensor; null, with an exception, if it is none.
    void* (*impl)(PyObject* tensor);
    // Whether an object that is no bool of Python's is a single one: of NumPy's, or a tensor without dimensions.
    bool (*is_bool)(PyObject* object);
    // Whether an object that is no number of Python's may stand for one: no array, but one value; real, and with no
    // gradient that would be lost.
    bool (*is_number)(PyObject* object);

    // Reads a value by its type's code (tkjit/spec/values.py). False if it is of another type; with what its hooks raised.
    bool (*read_value)(PyObject* object, const char* code, Values* values, TkjitArg* arg);

    // The seed and the offset for random numbers, of which each thread takes so many, from a generator: the given one, or the
    // device's own.
    bool (*random)(const char* kernel, const char* name, PyObject* generator, int64_t draws, const TensorView& on, TkjitArg* arg);

    // The device that an argument names, as that of a tensor would be.
    bool (*place)(const char* kernel, const char* name, const TkjitArg& device, TensorView* on);
    // Raises that a tensor is not where the call runs.
    void (*refuse_place)(const char* kernel, const TensorView& view, const TensorView& on);
    // Raises that a constraint does not hold, or cannot be computed, with the values of its names.
    void (*refuse_constraint)(const char* kernel, const char* text, const char* how, const Dim* values, int count);

    // Warns of a deprecated overload; false if the warning is an error.
    bool (*deprecated)(const char* kernel, const char* text);

    // Looks at a tkjit.ParallelTensor. False, without an exception, if it is none.
    bool (*parallel)(PyObject* object, ParallelView* view);
    // The club for a call over these devices: the one that was given, or the process's own; a new reference.
    PyObject* (*club)(const char* kernel, PyObject* given, DeviceType type, const int32_t* devices, int count);
    // The stream of a club for one of its devices, or null for the device's current one; borrowed.
    PyObject* (*club_stream)(PyObject* club, int dev_idx);
    // Launches each step in the club's own thread for it, and waits until all have launched. `last` are their tensors.
    bool (*execute)(const char* kernel, PyObject* club, const Step* steps, int count, const TensorView* last);
    // Keeps a launch that is made later in the call's batch, with what it uses.
    bool (*launch_later)(glue::Call& call, TkjitLaunch launcher, const TkjitArg* args, size_t count, const TensorView& on, void* stream);
    // Notes which processes the next launch of this thread waits for, and on which GPU, if it is one; null for none. Why it
    // should be aborted, if one of them has ended, or null.
    const char* (*waits_for)(void* peers, int32_t device);

    // The error kinds of tkjit/errors.py.
    PyObject* argument_error;
    PyObject* shape_error;
    PyObject* launch_error;

    // Each raises, and says what came, what was expected and what to do. An exception that is set becomes the cause.
    void (*refuse_tensor)(const char* kernel, const char* name, PyObject* object, const TensorView& view);
    void (*refuse_mismatch)(const char* kernel, const TensorView& view, const Expected& expected);
    void (*refuse_device)(const char* kernel, const TensorView& view, const TensorView& other);
    void (*refuse_object)(const char* kernel, const char* name, PyObject* object, const char* expected);
    // Arguments that do not fit the parameters: a keyword's name, or the number that does not fit.
    void (*refuse_arguments)(const char* kernel, const glue::Signature& signature, glue::Misfit misfit, PyObject* name, Py_ssize_t number);
    // Every overload has refused the call: says why each has.
    void (*refuse_overloads)(glue::Call& call, const glue::Overload* overloads, int count);
    // A launch that has failed, with the launcher's own text. An exception that is set is the reason.
    void (*refuse_launch)(const char* kernel, const char* error);
};

// What a glue module exports as the capsule `entry`. All but a call is the runtime's (glue_calls.h).
struct GlueEntry {
    uint32_t version;
    vectorcallfunc call;
    const glue::Contents* contents;
};
constexpr const char* kGlueCapsule = "tkjit.glue.entry";

// The end of a module: its entry, under the name that load_inline gives it (TORCH_EXTENSION_NAME,
// which must not stand here: a precompiled header that knew of the macro would serve one module alone); and a slot.
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
