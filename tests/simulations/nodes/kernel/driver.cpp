// Calls the kernel on memory of exactly the sizes that it may use, for the sanitizers to watch.
#include SOURCE

#include <cstdio>
#include <cstdlib>
#include <vector>

static uint32_t state = 1;
static float draw() { return (state = state * 1664525u + 1013904223u) / 2147483648.0f - 1.0f; }
static std::vector<float> values(size_t count, float scale) {
    std::vector<float> made(count);
    for (float& value : made) value = scale * draw();
    return made;
}

static void run(std::vector<int> width, int n, bool masked) {
    const int layers = width.size() - 1, steps = 2, count = n + 17;
    std::vector<std::vector<float>> arrays;
    for (int size : {864, 32, 9216, 32}) arrays.push_back(values(size, 0.1f));
    size_t inputs = 0;
    for (int l = 0; l < layers; l++) {
        inputs += width[l];
        arrays.push_back(values((size_t)width[l] * width[l + 1], 0.1f));
        arrays.push_back(values(width[l + 1], 0.1f));
    }
    std::vector<float*> pointers;
    for (auto& array : arrays) pointers.push_back(array.data());
    std::vector<float> images = values((size_t)count * steps * 3072, 1.0f), losses(steps);
    std::vector<float> masks = values(steps * n * inputs, 1.0f), each(count);
    std::vector<int64_t> labels(count * steps);
    for (size_t i = 0; i < labels.size(); i++) labels[i] = i % width[layers];
    std::vector<uint8_t> correct(count);
    void* memory = std::aligned_alloc(64, fedau_bytes(n, layers, width.data()));
    fedau_train(pointers.data(), layers, width.data(), images.data(), labels.data(),
                masked ? masks.data() : nullptr, steps, n, 0.01f, memory, losses.data());
    std::free(memory);
    memory = std::aligned_alloc(64, fedau_bytes(16, layers, width.data()));
    fedau_evaluate(pointers.data(), layers, width.data(), images.data(), labels.data(), count, memory,
                   each.data(), correct.data());
    std::free(memory);
    std::printf("%d %g %g\n", n, losses[1], each[count - 1]);
}

int main() {
    run({2048, 48, 10}, 16, false);
    run({2048, 32, 16, 7}, 5, true);
    run({2048, 1}, 1, false);
}
