//! The GPUs that wgpu shows, and opening one of them.

use burn::tensor::Device;
use burn::tensor::wgpu::{WgpuSetup, wgpu};
use std::future::Future;
use std::task::{Context, Poll, Waker};

/// The adapters that a model can run on, in the order of their numbers.
pub fn adapters() -> Vec<(wgpu::Instance, wgpu::Adapter)> {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let backends = wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12;
    let found = finished(instance.enumerate_adapters(backends));
    found.into_iter().map(|adapter| (instance.clone(), adapter)).collect()
}

/// Opens the GPU of this number; the error is a sentence's end.
pub fn open(number: usize) -> Result<Device, String> {
    let (instance, adapter) = adapters()
        .into_iter()
        .nth(number)
        .ok_or("this machine has no such GPU, or its driver does not answer")?;
    let wanted = wgpu::DeviceDescriptor {
        label: None,
        required_features: adapter.features() - wgpu::Features::MAPPABLE_PRIMARY_BUFFERS,
        required_limits: adapter.limits(),
        memory_hints: wgpu::MemoryHints::MemoryUsage,
        trace: wgpu::Trace::Off,
        experimental_features: wgpu::ExperimentalFeatures::disabled(),
    };
    let (device, queue) = finished(adapter.request_device(&wanted)).map_err(|error| error.to_string())?;
    let backend = adapter.get_info().backend;
    let setup = WgpuSetup {
        instance,
        adapter,
        device,
        queue,
        backend,
    };
    Device::wgpu_options()
        .setup(setup)
        .init()
        .map_err(|error| error.to_string())
}

/// What a future of wgpu gives; outside of browsers they are done as soon as they are asked.
fn finished<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
        std::thread::yield_now();
    }
}
