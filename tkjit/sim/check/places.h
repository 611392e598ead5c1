// Places in a source: a machine address with the calls that led to it, or a site that was passed to the simulator.
#pragma once

#include "../detail/site.h"
#include "findings.h"

#include <stddef.h>
#include <stdint.h>

#include <unordered_map>
#include <vector>

namespace tkjit::sim::check {

/// A node in the tree of calls.
struct Place {
    unsigned caller;
    uintptr_t address;
    Site site;
};

class Places {
  public:
    static constexpr unsigned root = 0;

    Places() { places_.push_back({root, 0, {nullptr, 0}}); }

    /// Returns the place of an address that is called from another place.
    unsigned at(unsigned caller, uintptr_t address) {
        Recent& recent = recent_[(address ^ caller * 0x9e37u) % recent_count];
        if (recent.caller == caller && recent.address == address) return recent.place;
        const auto [known, is_new] = known_.try_emplace({caller, address}, static_cast<unsigned>(places_.size()));
        if (is_new) places_.push_back({caller, address, {nullptr, 0}});
        recent = {caller, address, known->second};
        return known->second;
    }

    /// Returns the place for a line that the simulator itself passes.
    unsigned at(unsigned caller, Site site) {
        const unsigned place = at(caller, reinterpret_cast<uintptr_t>(site.file) ^ static_cast<unsigned>(site.line));
        places_[place].site = site;
        return place;
    }

    /// Describes a place and the calls that led to it, starting with the innermost.
    Json describe(unsigned place) const {
        Json json;
        if (places_[place].site.file) {
            json.text("file", places_[place].site.file).number("line", places_[place].site.line);
            place = places_[place].caller;
        }
        std::vector<unsigned long long> addresses;
        for (; place != root; place = places_[place].caller) addresses.push_back(places_[place].address);
        return json.numbers("calls", addresses);
    }

    const Place& operator[](unsigned place) const { return places_[place]; }

  private:
    struct Key {
        unsigned caller;
        uintptr_t address;
        bool operator==(const Key&) const = default;
    };
    struct Hash {
        size_t operator()(const Key& key) const { return key.address * 0x9e3779b97f4a7c15ull ^ key.caller; }
    };
    struct Recent {
        unsigned caller;
        uintptr_t address;
        unsigned place;
    };
    static constexpr unsigned recent_count = 4096;

    std::vector<Place> places_;
    std::unordered_map<Key, unsigned, Hash> known_;
    Recent recent_[recent_count] = {};
};

inline Places places;

}  // namespace tkjit::sim::check
