// What the runtime and a glue module share: the dispatcher object, a tensor's view, and a table of C functions.
//
// The runtime is compiled once per environment and knows pybind11 and torch's headers; a glue module is compiled per
// kernel and includes Python.h alone, which is why it takes 0.3 s and not 5. All that a glue module needs of torch it
// reaches through the table, as NumPy's C API does.
#pragma once

#include <Python.h>

#include <tkjit/arg.h>
#include <tkjit/expr.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace tkjit {

constexpr uint32_t kTableVersion = 7;
constexpr int kMaxDims = 4;                 // of a global layout
constexpr int kMaxRank = TKJIT_MAX_RANK;    // of a strided one
constexpr int kMaxDevices = 16;                 // launchers of devices beyond are looked up in Python
constexpr int kDeviceSlots = 1 + kMaxDevices;   // slot 0 is the CPU
constexpr int64_t kUnbound = -1;
constexpr int kMaxParallelDevices = 32;        // of a parallel layout: include/tkjit/pgl.h

enum class DeviceType : int32_t { cpu, cuda, other };

// Why a tensor cannot be passed to a kernel. A view with none of these is strided, contiguous, plain memory.
enum Problem : uint32_t {
    kNotContiguous = 1 << 0,
    kRequiresGrad = 1 << 1,  // only while gradients are recorded
    kConjugate = 1 << 2,
    kNegative = 1 << 3,
    kNotStrided = 1 << 4,  // sparse, quantized, nested
    kMeta = 1 << 5,
    kNoStorage = 1 << 6,  // fake, functional and other wrapped tensors
    kTooManyDims = 1 << 7,
    kTooLarge = 1 << 8,  // an extent over 31 bits
    kOtherDevice = 1 << 9,
    kNotATensor = 1 << 10,
    kFreed = 1 << 11,  // the storage was freed or shrunk under the tensor
    kWatched = 1 << 12,  // a subclass or a mode of torch's wants to see what is done with it
    kAutocast = 1 << 13,  // of a thread, not of a tensor: torch.autocast is on
    kBackwards = 1 << 14,  // a stride below zero
};
// What torch's own dispatcher deals with: a direct call that meets it becomes a call of the kernel's operator.
constexpr uint32_t kForOperator = kNoStorage | kMeta | kWatched;

// What a tensor argument was when it was read. Nothing here is held: code of the caller's that runs later may resize the
// tensor, so that `data` is looked at again (Table::confirm) before a launch uses it.
struct TensorView {
    void* data = nullptr;
    size_t bytes = 0;  // from `data` to the end of its last element
    void* storage = nullptr;  // the c10::StorageImpl of one of torch's tensors, where the reader knows it
    int64_t sizes[kMaxRank];
    int64_t strides[kMaxRank];  // of one that may have any, in elements
    int32_t ndim = 0;
    int32_t dtype = -1;  // TkjitDtype, -1 for any other
    DeviceType device_type = DeviceType::cpu;
    int32_t device = 0;
    uint32_t problems = 0;
    bool foreign = false;  // an array of another framework
    bool read_only = false;
    bool strided = false;  // asked of the reader: take any strides, and note them
    bool ran_code = false;  // Python code may have run while it was read

    // Of a call's tensors: what it is, and the one that was read before it. Set when it is known to be good.
    PyObject* object;
    const char* name;
    const TensorView* before;
};

// A dim as an error message shows it: its text in the spec, and the value that other arguments gave it.
struct Dim {
    const char* text;
    int64_t value;

    Dim(const char* text, Int value = kUnbound) : text(text), value(value.value()) {}
};

// What a tensor should have been.
struct Expected {
    const Dim* dims;
    int count;
    bool leading;         // "..." stands before the dims
    const char* dtypes;   // "float32 or bfloat16"
    const char* like;     // or: the argument whose dtype it must share
    int32_t like_dtype;
};

// The text of a launcher's error that is about extents, behind the mark of such; null for any other.
inline const char* about_shapes(const char* error) {
    static constexpr char mark[] = "shape: ";
    return std::strncmp(error, mark, sizeof mark - 1) == 0 ? error + sizeof mark - 1 : nullptr;
}

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

// A loaded kernel, as the interpreter calls it: `vectorcall` is the glue's own function.
struct Dispatcher {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    const Table* table;
    PyObject* glue;                          // the module that owns `vectorcall`
    const GlueEntry* entry;                  // what it exports
    PyObject* result_types;                  // per overload: a named tuple's type, or None
    std::atomic<TkjitLaunch>* launchers;     // [device slot][variant over all overloads]
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
    // A new contiguous tensor of the same device as `like`.
    PyObject* (*empty)(const int64_t* sizes, int ndim, int32_t dtype, const TensorView& like);
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
    // Throws the Python exception that is set as torch knows it.
    void (*rethrow)();

    // Reads a value by its type's code (tkjit/spec/values.py). False if it is of another type; with what its hooks raised.
    bool (*read_value)(PyObject* object, const char* code, Values* values, TkjitArg* arg);

    // The seed and the offset for random numbers, of which each thread takes so many, from a generator: the given one, or the
    // device's own.
    bool (*random)(const char* kernel, const char* name, PyObject* generator, int64_t draws, const TensorView& on, TkjitArg* arg);

    // The device that an argument names, as that of a tensor would be.
    bool (*place)(const char* kernel, const char* name, const TkjitArg& device, TensorView* on);
    // Raises that a tensor is not where the call runs.
    void (*refuse_place)(const char* kernel, const char* name, PyObject* object, const TensorView& on);

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
    // Notes which processes the next launch of this thread waits for, and on which GPU, if it is one; null for none. Why it
    // should be aborted, if one of them has ended, or null.
    const char* (*waits_for)(void* peers, int32_t device);

    // The error kinds of tkjit/errors.py.
    PyObject* argument_error;
    PyObject* shape_error;
    PyObject* launch_error;

    // Each raises, and says what came, what was expected and what to do. An exception that is set becomes the cause.
    void (*refuse_tensor)(const char* kernel, const char* name, PyObject* object, const TensorView& view);
    void (*refuse_mismatch)(const char* kernel, const char* name, PyObject* object, const TensorView& view,
                            const Expected& expected);
    void (*refuse_device)(const char* kernel, const char* name, PyObject* object, const char* other, PyObject* other_object);
    void (*refuse_object)(const char* kernel, const char* name, PyObject* object, const char* expected);
};

// What a glue module exports as the capsule `entry`.
struct GlueEntry {
    uint32_t version;
    vectorcallfunc call;
    // One overload, with tensors that are plain: what an operator does.
    PyObject* (*call_overload)(PyObject* self, int overload, PyObject* const* args, size_t nargsf, PyObject* kwnames);
    // Which overload takes a call, as an int; -1 if a tensor has no data to tell by. Refuses as a call would.
    vectorcallfunc choose;
    // What a call would pass to its launchers, without launching: (overload, result, [[argument, ...], ...], scratch).
    vectorcallfunc collect;
    // A call without its launches; and those, with other numbers if some are given by name. Null, or false, with an exception.
    bool (*prepare)(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames, Prepared* prepared);
    PyObject* (*launch_again)(PyObject* self, const Prepared* prepared, PyObject* const* numbers, PyObject* kwnames);
    // As `collect`.
    PyObject* (*show)(const Prepared* prepared);
    int variant_count;
};
constexpr const char* kGlueCapsule = "tkjit.glue.entry";

// The end of a module that is not pybind11's: its entry, under the name that load_inline gives it; and a slot.
#define TKJIT_JOIN(a, b) a##b
#define TKJIT_INIT(name) TKJIT_JOIN(PyInit_, name)
#define TKJIT_MODULE(definition) \
    PyMODINIT_FUNC TKJIT_INIT(TORCH_EXTENSION_NAME)() { return PyModuleDef_Init(&definition); }
#ifdef Py_GIL_DISABLED
#define TKJIT_NEEDS_NO_GIL {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#else
#define TKJIT_NEEDS_NO_GIL
#endif

}  // namespace tkjit
