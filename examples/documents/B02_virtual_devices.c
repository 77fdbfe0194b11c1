/* SPDX-License-Identifier: Apache-2.0 */

/* Document B, distributed datasets: the CPU as two logical devices (S108). An argument adds as many simulated GPUs, as the
 * document's machine has. */

#include "document.h"

int main(int argc, char **argv)
{
    const int gpus = argument(argc, argv, 1, 0);
    must(sheaf_devices_configure(2, &err));
    if (gpus > 0)
        must(sheaf_devices_simulate("GPU", gpus, &err));
    printf("Available devices:\n");
    for (int i = 0; i < sheaf_devices_count(); i++) {
        sheaf_device device;
        must(sheaf_devices_get(i, &device));
        printf("%d) LogicalDevice(name='%s', device_type='%s')\n", i, device.name, device.type);
    }
    return 0;
}
