/* Whether the device computes correctly at all. Built alone, without the prelude, before a device is selected
 * (lib/dev/device/probe.c).
 *
 *     y[i] = exp(x[i]) + sum over j < 8 of x[(i + j) mod n]          x, y: (n)
 *
 * One work-item per element; the driver selects the work-group size. */
__kernel void probe(__global const float *x, __global float *y, const int n) {
    const int i = get_global_id(0);
    float sum = 0.0f;
    for (int j = 0; j < 8; j++)
        sum += x[(i + j) % n];
    y[i] = exp(x[i]) + sum;
}
