// Vector clocks, which order the accesses of different threads.
//
// Source: Flanagan and Freund, "FastTrack: efficient and precise dynamic race detection", PLDI 2009. A thread's own
// clock advances whenever the thread passes on its knowledge, and each access records its thread's clock. Once another
// thread has learned of that clock, everything that the other thread does comes after the access.
#pragma once

#include <stddef.h>

#include <map>
#include <memory>
#include <vector>

namespace tkjit::sim::race {

using Clocks = std::vector<unsigned>;  // by thread of a block

inline void raise(Clocks& clocks, const Clocks& others) {
    if (clocks.size() < others.size()) clocks.resize(others.size());
    for (size_t i = 0; i < others.size(); i++) clocks[i] = clocks[i] < others[i] ? others[i] : clocks[i];
}

/// The clocks that a thread, or an object at which threads meet, knows: the clocks of its own block's threads, and the
/// clocks of other blocks' threads that it has learned.
class Knowledge {
  public:
    bool is_empty() const { return own_.empty() && others_ == nullptr; }
    void clear() { *this = {}; }

    bool includes(unsigned block, unsigned thread, unsigned clock) const {
        const Clocks* clocks = block == block_ ? &own_ : nullptr;
        if (clocks == nullptr && others_) {
            const auto found = others_->find(block);
            if (found != others_->end()) clocks = &found->second;
        }
        return clocks && thread < clocks->size() && (*clocks)[thread] >= clock;
    }

    void learn(unsigned block, unsigned thread, unsigned clock) {
        if (own_.empty()) block_ = block;
        Clocks news;
        Clocks& clocks = block == block_ ? own_ : news;
        if (clocks.size() <= thread) clocks.resize(thread + 1);
        if (clocks[thread] < clock) clocks[thread] = clock;
        if (&clocks == &news) learn_others({{block, news}});
    }

    void learn(const Knowledge& other) {
        if (other.is_empty()) return;
        if (is_empty()) {
            *this = other;
            return;
        }
        if (other.block_ == block_) {
            raise(own_, other.own_);
        } else if (!other.own_.empty()) {
            learn_others({{other.block_, other.own_}});
        }
        if (other.others_ == nullptr || other.others_ == others_) return;
        const auto mine = other.others_->find(block_);
        if (mine != other.others_->end()) raise(own_, mine->second);
        if (others_ == nullptr) {
            others_ = other.others_;
        } else {
            learn_others(*other.others_);
        }
    }

    /// Learns only what the other one knows of the threads of a block.
    void learn_of_block(unsigned block, const Knowledge& other) {
        const Clocks* clocks = other.block_ == block && !other.own_.empty() ? &other.own_ : nullptr;
        if (clocks == nullptr && other.others_) {
            const auto found = other.others_->find(block);
            if (found != other.others_->end()) clocks = &found->second;
        }
        if (clocks == nullptr) return;
        Knowledge news;
        news.block_ = block;
        news.own_ = *clocks;
        learn(news);
    }

    /// Learns only what the other one knows of the threads of some blocks.
    template <class IsOne>
    void learn_of_blocks(const Knowledge& other, IsOne is_one) {
        if (is_one(other.block_)) learn_of_block(other.block_, other);
        if (other.others_ == nullptr) return;
        for (const auto& [block, clocks] : *other.others_) {
            if (block != other.block_ && is_one(block)) learn_of_block(block, other);
        }
    }

    /// Forgets everything that another thread of the block does not know.
    void keep_common(const Knowledge& other) {
        if (own_.size() > other.own_.size()) own_.resize(other.own_.size());
        for (size_t i = 0; i < own_.size(); i++) own_[i] = own_[i] < other.own_[i] ? own_[i] : other.own_[i];
    }

    unsigned clock_of(unsigned thread) const { return thread < own_.size() ? own_[thread] : 0; }

    /// Advances a thread's clock in its own knowledge.
    unsigned advance(unsigned thread) { return ++own_[thread]; }

    void begin(unsigned block, unsigned thread, unsigned threads) {
        block_ = block;
        own_.assign(threads, 0);
        own_[thread] = 1;
        others_ = nullptr;
    }

  private:
    using Others = std::map<unsigned, Clocks>;  // by block; shared by all that have learned the same clocks

    void learn_others(const Others& news) {
        auto joined = others_ ? std::make_shared<Others>(*others_) : std::make_shared<Others>();
        for (const auto& [block, clocks] : news) raise((*joined)[block], clocks);
        others_ = joined;
    }

    unsigned block_ = 0;
    Clocks own_;
    std::shared_ptr<const Others> others_;
};

}  // namespace tkjit::sim::race
