// Converts arguments of torch's operators to those of the library's C functions. A binding defines `Tensor`, `describe`,
// `allocate` and `stream_of` before it includes this file.
#pragma once

#include <optional>
#include <vector>

namespace tkjit::operators {

// The tkjit_error_kind() of this thread's last error.
inline thread_local int last_error_kind = 0;

// Throws the error that a function of the library returned, if any. Like errors of torch's own operators, it becomes a
// RuntimeError in Python.
inline void check(tkjit_error error) {
    if (!error) return;
    const std::string text = error;
    last_error_kind = tkjit_error_kind(error);
    tkjit_free_error(error);
    throw std::runtime_error(text);
}

// An optional tensor; the library gets a null pointer for an absent one.
class Optional {
public:
    Optional(Name name, const std::optional<Tensor>& tensor) {
        if (tensor) tensor_ = describe(name, *tensor);
    }
    const tkjit_tensor* get() const { return tensor_ ? &*tensor_ : nullptr; }

private:
    std::optional<tkjit_tensor> tensor_;
};

// A list of tensors; absent ones are null pointers.
class List {
public:
    template <class Item>
    List(Name name, const std::vector<Item>& items) : name_(name) {
        tensors_.reserve(items.size());
        for (const Item& item : items) add(item);
    }
    const tkjit_tensor* const* items() const { return pointers_.data(); }
    int64_t count() const { return int64_t(pointers_.size()); }
    tkjit_device device() const { return tensors_.empty() ? tkjit_cpu() : tensors_.front().device; }

private:
    void add(const Tensor& tensor) {
        const std::string argument = std::string(name_.argument) + "[" + std::to_string(pointers_.size()) + "]";
        tensors_.push_back(describe({name_.kernel, argument.c_str()}, tensor));
        pointers_.push_back(&tensors_.back());
    }
    void add(const std::optional<Tensor>& tensor) {
        if (tensor) add(*tensor);
        else pointers_.push_back(nullptr);
    }
    Name name_;
    std::vector<tkjit_tensor> tensors_;
    std::vector<const tkjit_tensor*> pointers_;
};

// A list of numbers, bools or strings as a C array. An absent list has null items.
template <class T>
class Array {
public:
    template <class Item>
    explicit Array(const std::vector<Item>& items) : is_there_(true) {
        for (const Item& item : items) items_.push_back({as_c(item)});
    }
    template <class Item>
    explicit Array(const std::optional<std::vector<Item>>& items) : Array(items ? *items : std::vector<Item>()) {
        is_there_ = items.has_value();
    }
    const T* items() const {
        static constexpr T none[1]{};  // an empty list must differ from an absent one
        return !is_there_ ? nullptr : items_.empty() ? none : &items_.data()->value;
    }
    int64_t count() const { return int64_t(items_.size()); }

private:
    static T as_c(const std::string& text) { return text.c_str(); }
    static T as_c(T number) { return number; }
    struct Item {  // because std::vector<bool> has no array
        T value;
    };
    bool is_there_;
    std::vector<Item> items_;
};

// A pointer to an optional number or text, or null, as the C functions take it.
template <class T>
const T* pointer(const std::optional<T>& number) {
    return number ? &*number : nullptr;
}
inline const char* pointer(const std::optional<std::string>& text) { return text ? text->c_str() : nullptr; }

}  // namespace tkjit::operators
