// SPDX-License-Identifier: GPL-2.0
// A device whose interrupt handler takes long, on a line that it shares with others.
//
// Binds QEMU's `edu` device and never makes it interrupt. But its handler is called whenever a device on the same
// line interrupts, and then reads a register of `edu` `reads` times before it says "not mine", as a driver does whose
// device answers slowly.
#include <linux/interrupt.h>
#include <linux/module.h>
#include <linux/pci.h>

static unsigned int reads;
module_param(reads, uint, 0644);
MODULE_PARM_DESC(reads, "register reads in each call of the handler; may be changed at any time");

static irqreturn_t slowisr_handler(int irq, void *registers)
{
	unsigned int count = READ_ONCE(reads);

	while (count--)
		readl(registers);
	return IRQ_NONE;
}

static int slowisr_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	void __iomem *registers;
	int error = pcim_enable_device(pdev);

	if (error)
		return error;
	registers = pcim_iomap(pdev, 0, 0);
	if (!registers)
		return -ENOMEM;
	return devm_request_irq(&pdev->dev, pdev->irq, slowisr_handler, IRQF_SHARED, "slowisr",
				(void __force *)registers);
}

static const struct pci_device_id slowisr_ids[] = { { PCI_DEVICE(0x1234, 0x11e8) }, {} };
MODULE_DEVICE_TABLE(pci, slowisr_ids);

static struct pci_driver slowisr_driver = {
	.name = "slowisr",
	.id_table = slowisr_ids,
	.probe = slowisr_probe,
};
module_pci_driver(slowisr_driver);

MODULE_DESCRIPTION("an interrupt handler that takes as long as one likes");
MODULE_LICENSE("GPL");
