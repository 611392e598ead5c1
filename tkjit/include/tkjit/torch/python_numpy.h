// py::array for NumPy. Elements are found through ``__array_interface__``.
#pragma once

#include "python.h"

#include <cstring>
#include <initializer_list>

namespace pybind11 {
inline namespace tkjit_stand_in {

inline object of_numpy(const char* name) { return check(PyObject_GetAttrString(check(PyImport_ImportModule("numpy")).ptr(), name)); }

class dtype : public object {
public:
    dtype() = default;
    dtype(object from) : object(std::move(from)) {}
    explicit dtype(const std::string& text) : object(of_numpy("dtype")(text)) {}
    template <class T>
    static dtype of() {
        return dtype(name_of<T>());
    }
    /// ``f4``
    template <class T>
    static std::string name_of() {
        using Element = std::remove_cv_t<T>;
        const char kind = std::is_same<Element, bool>::value     ? 'b'
                          : std::is_floating_point<Element>::value ? 'f'
                          : !std::is_integral<Element>::value      ? 'c'
                          : std::is_signed<Element>::value         ? 'i'
                                                                   : 'u';
        return kind + std::to_string(sizeof(Element));
    }
    ssize_t itemsize() const { return attr("itemsize").template cast<ssize_t>(); }
    char kind() const { return attr("kind").template cast<std::string>()[0]; }
    static bool is_type_of(PyObject* given) { return is_instance(given, of_numpy("dtype").ptr()); }
    static const char* type_name() { return "numpy.dtype"; }
};

/// The location of a buffer's elements. Strides are in bytes.
struct buffer_info {
    buffer_info() = default;
    buffer_info(void* ptr, ssize_t itemsize, std::string format, ssize_t ndim, std::vector<ssize_t> shape, std::vector<ssize_t> strides,
                bool readonly = false)
        : ptr(ptr), itemsize(itemsize), format(std::move(format)), ndim(ndim), shape(std::move(shape)), strides(std::move(strides)), readonly(readonly) {
        for (const ssize_t extent : this->shape) size *= extent;
    }
    void* ptr = nullptr;
    ssize_t itemsize = 0, size = 1;
    std::string format;
    ssize_t ndim = 0;
    std::vector<ssize_t> shape, strides;
    bool readonly = false;
};

/// Access to the elements of an array of N dimensions by index.
template <class T, ssize_t N>
class ElementsOf {
public:
    explicit ElementsOf(const buffer_info& info) : data_(static_cast<char*>(info.ptr)), shape_(info.shape), strides_(info.strides) {}
    template <class... I>
    T& operator()(I... indices) const {
        static_assert(N < 0 || sizeof...(I) == size_t(N), "an index for each dimension");
        ssize_t offset = 0;
        size_t dim = 0;
        ((offset += ssize_t(indices) * strides_[dim++]), ...);
        return *reinterpret_cast<T*>(data_ + offset);
    }
    T& operator[](ssize_t index) const { return (*this)(index); }
    template <class... I>
    T* data(I... indices) const {
        return &(*this)(indices...);
    }
    T* mutable_data() const { return reinterpret_cast<T*>(data_); }
    ssize_t shape(ssize_t dim) const { return shape_.at(size_t(dim)); }
    ssize_t ndim() const { return ssize_t(shape_.size()); }
    ssize_t size() const {
        ssize_t count = 1;
        for (const ssize_t extent : shape_) count *= extent;
        return count;
    }

private:
    char* data_;
    std::vector<ssize_t> shape_, strides_;
};

/// The sizes of an array, from one number or several.
class Shape : public std::vector<ssize_t> {
public:
    using std::vector<ssize_t>::vector;
    template <class T, class = std::enable_if_t<std::is_integral<T>::value>>
    Shape(T count) : std::vector<ssize_t>{ssize_t(count)} {}
    template <class List, class = decltype(std::begin(std::declval<const List&>()))>
    Shape(const List& sizes) : std::vector<ssize_t>(std::begin(sizes), std::end(sizes)) {}
};

class array : public object {
public:
    enum { c_style = 1, f_style = 2, forcecast = 16 };

    array() : array(pybind11::dtype::of<double>(), Shape{0}) {}
    array(const object& from) : object(is_type_of(from.ptr()) ? from : of_numpy("asarray")(from)) {}
    array(const Accessor& from) : array(from.get()) {}
    array(const pybind11::dtype& type, const Shape& shape) : object(of_numpy("empty")(std::vector<ssize_t>(shape), type)) {}
    /// An array of existing elements: a view that keeps ``base`` alive, or a copy if there is no base.
    array(const pybind11::dtype& type, const Shape& shape, const void* from, handle base = {}) : array(type, shape, contiguous_strides(shape, type.itemsize()), from, base) {}
    array(const pybind11::dtype& type, const Shape& shape, const std::vector<ssize_t>& strides, const void* from = nullptr, handle base = {})
        : object(from ? over(type, shape, strides, from, base) : of_numpy("empty")(std::vector<ssize_t>(shape), type)) {}
    explicit array(const buffer_info& info) : array(pybind11::dtype(info.format), info.shape, info.strides, info.ptr) {}

    /// Returns a null array if the object cannot be converted.
    static array ensure(handle from) {
        try {
            return array(reinterpret_borrow<object>(from));
        } catch (const error_already_set&) {
            return reinterpret_steal<array>(handle());
        }
    }
    static bool is_type_of(PyObject* given) { return is_instance(given, of_numpy("ndarray").ptr()); }
    static const char* type_name() { return "numpy.ndarray"; }

    buffer_info request(bool is_written = false) const {
        if (is_written && info().readonly) throw std::domain_error("array is not writeable");
        return info();
    }
    pybind11::dtype dtype() const { return attr("dtype").get(); }
    ssize_t ndim() const { return info().ndim; }
    ssize_t size() const { return info().size; }
    ssize_t itemsize() const { return info().itemsize; }
    ssize_t nbytes() const { return size() * itemsize(); }
    ssize_t shape(ssize_t dim) const { return info().shape.at(size_t(dim)); }
    const ssize_t* shape() const { return info().shape.data(); }
    ssize_t strides(ssize_t dim) const { return info().strides.at(size_t(dim)); }
    const ssize_t* strides() const { return info().strides.data(); }
    bool writeable() const { return !info().readonly; }
    int flags() const {
        const object all = attr("flags");
        return (all.attr("c_contiguous").template cast<bool>() ? c_style : 0) | (all.attr("f_contiguous").template cast<bool>() ? f_style : 0);
    }
    template <class... I>
    const void* data(I... indices) const {
        return static_cast<const char*>(info().ptr) + offset_of(indices...);
    }
    template <class... I>
    void* mutable_data(I... indices) {
        return static_cast<char*>(request(true).ptr) + offset_of(indices...);
    }
    template <class T, ssize_t N = -1>
    ElementsOf<const T, N> unchecked() const {
        return ElementsOf<const T, N>(matching<N>(info()));
    }
    template <class T, ssize_t N = -1>
    ElementsOf<T, N> mutable_unchecked() {
        return ElementsOf<T, N>(matching<N>(request(true)));
    }
    array reshape(const Shape& shape) const { return array(attr("reshape")(std::vector<ssize_t>(shape))); }
    void resize(const Shape& shape, bool checks_references = true) {
        attr("resize")(std::vector<ssize_t>(shape), arg("refcheck") = checks_references);
        info_.reset();
    }
    array squeeze() const { return array(attr("squeeze")()); }

protected:
    array(object made, std::nullptr_t) : object(std::move(made)) {}
    const buffer_info& info() const {
        if (!info_) info_ = std::make_shared<buffer_info>(read_info());
        return *info_;
    }
    template <class... I>
    ssize_t offset_of(I... indices) const {
        const std::vector<ssize_t> listed{ssize_t(indices)...};
        if (ssize_t(listed.size()) > ndim()) throw index_error("too many indices for an array of " + std::to_string(ndim()) + " dimensions");
        ssize_t offset = 0;
        for (size_t dim = 0; dim < listed.size(); ++dim) {
            if (listed[dim] < 0 || listed[dim] >= info().shape[dim])
                throw index_error("index " + std::to_string(listed[dim]) + " is out of bounds for axis " + std::to_string(dim) + " with size " +
                                  std::to_string(info().shape[dim]));
            offset += listed[dim] * info().strides[dim];
        }
        return offset;
    }

private:
    template <ssize_t N>
    static const buffer_info& matching(const buffer_info& info) {
        if (N >= 0 && info.ndim != N)
            throw std::domain_error("array has incorrect number of dimensions: " + std::to_string(info.ndim) + "; expected " + std::to_string(N));
        return info;
    }
    static std::vector<ssize_t> contiguous_strides(const Shape& shape, ssize_t itemsize) {
        std::vector<ssize_t> strides(shape.size(), itemsize);
        for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
        return strides;
    }
    static object over(const pybind11::dtype& type, const Shape& shape, const std::vector<ssize_t>& strides, const void* from, handle base) {
        const dict interface(arg("data") = std::make_pair(reinterpret_cast<uintptr_t>(from), false), arg("shape") = make_list_tuple(shape),
                             arg("strides") = make_list_tuple(strides), arg("typestr") = type.attr("str").get(), arg("version") = 3);
        const object holder = check(PyImport_ImportModule("types")).attr("SimpleNamespace")(arg("__array_interface__") = interface, arg("base") = base);
        const object view = of_numpy("asarray")(holder);
        return base ? view : view.attr("copy")();
    }
    static tuple make_list_tuple(const std::vector<ssize_t>& sizes) { return tuple(pybind11::cast(sizes)); }
    buffer_info read_info() const {
        const object interface = attr("__array_interface__");
        const auto shape = interface["shape"].template cast<std::vector<ssize_t>>();
        const auto type = interface["typestr"].template cast<std::string>();
        const object strides = interface["strides"], data = interface["data"];
        const ssize_t itemsize = attr("itemsize").template cast<ssize_t>();
        return {reinterpret_cast<void*>(data[0].template cast<uintptr_t>()), itemsize, type.substr(1), ssize_t(shape.size()), shape,
                strides.is_none() ? contiguous_strides(shape, itemsize) : strides.template cast<std::vector<ssize_t>>(),
                data[1].template cast<bool>()};
    }

    mutable std::shared_ptr<buffer_info> info_;
};

/// An array with elements of type ``T``. Other arrays are converted.
template <class T, int options = array::forcecast>
class array_t : public array {
public:
    using value_type = T;
    array_t() : array(pybind11::dtype::of<T>(), Shape{0}) {}
    array_t(const object& from) : array(converted(from), nullptr) {}
    array_t(const Accessor& from) : array_t(from.get()) {}
    array_t(const array& from) : array_t(static_cast<const object&>(from)) {}
    array_t(const array_t&) = default;
    array_t& operator=(const array_t&) = default;
    explicit array_t(const buffer_info& info) : array(info) {}
    array_t(const Shape& shape, const T* from = nullptr, handle base = {}) : array(pybind11::dtype::of<T>(), shape, static_cast<const void*>(from), base) {
        if (!from) *this = array_t(object(array(pybind11::dtype::of<T>(), shape)));
    }
    array_t(const Shape& shape, const std::vector<ssize_t>& strides, const T* from = nullptr, handle base = {}) : array(pybind11::dtype::of<T>(), shape, strides, from, base) {}

    static bool is_type_of(PyObject* given) { return array::is_type_of(given) && holds_elements(given); }
    static std::string type_name() { return "numpy.ndarray[" + pybind11::dtype::name_of<T>() + "]"; }
    /// Accepts arguments that can be converted.
    static bool load(PyObject* given, array_t& to) {
        try {
            to = array_t(reinterpret_borrow<object>(given));
            return true;
        } catch (const error_already_set& error) {
            if (error.matches(PyExc_ImportError)) throw;
            return false;
        } catch (const type_error&) {
            return false;
        }
    }
    static array_t ensure(handle from) {
        try {
            return array_t(reinterpret_borrow<object>(from));
        } catch (const error_already_set&) {
            return reinterpret_steal<array_t>(handle());
        }
    }

    template <class... I>
    const T* data(I... indices) const {
        return static_cast<const T*>(array::data(indices...));
    }
    template <class... I>
    T* mutable_data(I... indices) {
        return static_cast<T*>(array::mutable_data(indices...));
    }
    template <class... I>
    const T& at(I... indices) const {
        return *data(indices...);
    }
    template <class... I>
    T& mutable_at(I... indices) {
        return *mutable_data(indices...);
    }
    template <ssize_t N = -1>
    ElementsOf<const T, N> unchecked() const {
        return array::unchecked<T, N>();
    }
    template <ssize_t N = -1>
    ElementsOf<T, N> mutable_unchecked() {
        return array::mutable_unchecked<T, N>();
    }
    ssize_t itemsize() const { return sizeof(T); }

private:
    static bool holds_elements(PyObject* given) {
        return handle(given).attr("dtype").equal(pybind11::dtype::of<T>());
    }
    static object converted(const object& from) {
        const char* const order = options & array::c_style ? "C" : options & array::f_style ? "F" : "K";
        const object made = of_numpy("asarray")(from);
        if (!(options & array::forcecast) && !of_numpy("can_cast")(made.attr("dtype"), pybind11::dtype::of<T>()).template cast<bool>())
            throw type_error("elements of " + text_of(made.attr("dtype").ptr()) + " do not fit into " + pybind11::dtype::name_of<T>());
        return of_numpy("asarray")(made, pybind11::dtype::of<T>(), arg("order") = order);
    }
};
template <class T, int options>
struct Exact<array_t<T, options>> {
    static bool is(PyObject* given) { return array_t<T, options>::is_type_of(given); }
};

/// Any object with a buffer, as an array.
class buffer : public array {
public:
    using array::array;
};

}  // inline namespace tkjit_stand_in
}  // namespace pybind11
