// c10::Dict: a map in order of insertion. Copies share their content.
#pragma once

#include "tensor.h"

#include <unordered_map>

namespace c10 {
inline namespace tkjit_stand_in {

template <class Key, class Value>
class Dict {
public:
    class Entry {
    public:
        Entry(Key key, Value value) : key_(std::move(key)), value_(std::move(value)) {}
        const Key& key() const { return key_; }
        const Value& value() const { return value_; }
        void setValue(Value value) { value_ = std::move(value); }

    private:
        Key key_;
        Value value_;
    };
    using iterator = typename std::deque<Entry>::iterator;
    using key_type = Key;
    using mapped_type = Value;

    Dict() : shared_(std::make_shared<Shared>()) {}
    iterator begin() const { return shared_->entries.begin(); }
    iterator end() const { return shared_->entries.end(); }
    size_t size() const { return shared_->entries.size(); }
    bool empty() const { return size() == 0; }
    void clear() const {
        shared_->entries.clear();
        shared_->places.clear();
    }
    void reserve(size_t) const {}
    bool contains(const Key& key) const { return shared_->places.count(key) != 0; }
    iterator find(const Key& key) const {
        const auto found = shared_->places.find(key);
        return found == shared_->places.end() ? end() : begin() + Difference(found->second);
    }
    const Value& at(const Key& key) const {
        const iterator found = find(key);
        if (found == end()) throw std::out_of_range("Argument not in Dict");
        return found->value();
    }
    /// Does not replace the value of an existing key.
    std::pair<iterator, bool> insert(Key key, Value value) const {
        const iterator found = find(key);
        if (found != end()) return {found, false};
        shared_->places.emplace(key, size());
        shared_->entries.emplace_back(std::move(key), std::move(value));
        return {end() - 1, true};
    }
    std::pair<iterator, bool> insert_or_assign(Key key, Value value) const {
        const iterator found = find(key);
        if (found == end()) return insert(std::move(key), std::move(value));
        found->setValue(std::move(value));
        return {found, false};
    }
    size_t erase(const Key& key) const {
        const iterator found = find(key);
        if (found == end()) return 0;
        shared_->entries.erase(found);
        shared_->places.clear();
        for (size_t i = 0; i < size(); ++i) shared_->places.emplace(shared_->entries[i].key(), i);
        return 1;
    }
    Dict copy() const {
        Dict made;
        *made.shared_ = *shared_;
        return made;
    }

private:
    using Difference = typename iterator::difference_type;
    struct Shared {
        std::deque<Entry> entries;
        std::unordered_map<Key, size_t> places;
    };
    std::shared_ptr<Shared> shared_;
};

template <class K, class V>
struct NeedsPython<Dict<K, V>> : std::true_type {};
template <class K, class V>
struct Passed<Dict<K, V>> {
    static std::string name() { return "Dict(" + Passed<K>::name() + ", " + Passed<V>::name() + ")"; }
};

}  // inline namespace tkjit_stand_in
}  // namespace c10
namespace torch {
using c10::Dict;
}

#ifndef TKJIT_TORCH_IN_KERNEL
namespace pybind11 {
inline namespace tkjit_stand_in {

template <class K, class V>
struct Reader<c10::Dict<K, V>> {
    static std::string name() { return Reader<std::unordered_map<K, V>>::name(); }
    static bool read(PyObject* given, c10::Dict<K, V>& to) {
        if (!PyDict_Check(given)) return false;
        for (const auto& [key, value] : dict(handle(given))) {
            K read_key{};
            V read_value{};
            if (!Reader<K>::read(key.ptr(), read_key) || !Reader<V>::read(value.ptr(), read_value)) return false;
            to.insert(std::move(read_key), std::move(read_value));
        }
        return true;
    }
};
template <class K, class V>
struct Writer<c10::Dict<K, V>> {
    static object write(const c10::Dict<K, V>& values) {
        dict made;
        for (const auto& entry : values) made[pybind11::cast(entry.key())] = entry.value();
        return std::move(made);
    }
};

}  // inline namespace tkjit_stand_in
}  // namespace pybind11
#endif
