//! Counts the performance cores of a hybrid CPU.

/// Number of physical performance cores. `None` if unknown.
#[cfg(target_os = "linux")]
pub fn performance() -> Option<usize> {
    linux::performance(std::path::Path::new("/sys/devices"))
}

/// Number of physical performance cores. `None` if unknown.
#[cfg(target_vendor = "apple")]
pub fn performance() -> Option<usize> {
    let mut cores: libc::c_int = 0;
    let mut size = size_of::<libc::c_int>();
    // SAFETY: the name ends with a zero, `cores` has `size` bytes, and no new value is set.
    let status = unsafe {
        libc::sysctlbyname(
            c"hw.perflevel0.physicalcpu".as_ptr(),
            (&raw mut cores).cast(),
            &mut size,
            std::ptr::null_mut(),
            0,
        )
    };
    (status == 0).then(|| usize::try_from(cores).ok()).flatten()
}

/// Number of physical performance cores. `None` if unknown.
#[cfg(windows)]
pub fn performance() -> Option<usize> {
    windows::performance()
}

/// Number of physical performance cores. `None` if unknown.
#[cfg(not(any(target_os = "linux", target_vendor = "apple", windows)))]
pub fn performance() -> Option<usize> {
    None
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::HashSet;
    use std::fs::read_to_string;
    use std::path::Path;

    /// Reads the number from sysfs (`/sys/devices`).
    pub fn performance(devices: &Path) -> Option<usize> {
        let cpus = devices.join("system/cpu");
        let present = parse_list(&read_to_string(cpus.join("present")).ok()?)?;
        let performance_cpus = match read_to_string(devices.join("cpu_core/cpus")) {
            // Intel's hybrid CPUs list the performance cores in their own device.
            Ok(cpus) => parse_list(&cpus)?,
            Err(_) => fastest(&cpus, &present, "cpu_capacity")
                .or_else(|| fastest(&cpus, &present, "cpufreq/cpuinfo_max_freq"))?,
        };
        let cores: HashSet<_> = performance_cpus
            .iter()
            .map(|cpu| {
                let topology = cpus.join(format!("cpu{cpu}/topology"));
                let read = |file| read_to_string(topology.join(file)).ok();
                Some((read("physical_package_id")?, read("core_id")?))
            })
            .collect::<Option<_>>()?;
        Some(cores.len())
    }

    /// CPUs above three quarters of the maximum value. Favored cores of one kind differ by less
    /// from the others, two kinds of cores by more.
    fn fastest(cpus: &Path, present: &[u32], file: &str) -> Option<Vec<u32>> {
        let speeds: Vec<(u32, u64)> = present
            .iter()
            .map(|&cpu| {
                let text = read_to_string(cpus.join(format!("cpu{cpu}/{file}"))).ok()?;
                Some((cpu, text.trim().parse().ok()?))
            })
            .collect::<Option<_>>()?;
        let max = speeds.iter().map(|(_, speed)| *speed).max()?;
        let fastest = speeds.into_iter().filter(|(_, speed)| speed * 4 > max * 3);
        Some(fastest.map(|(cpu, _)| cpu).collect())
    }

    /// Parses `0-3,8`.
    fn parse_list(text: &str) -> Option<Vec<u32>> {
        let mut cpus = Vec::new();
        for range in text.trim().split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            cpus.extend(first.parse::<u32>().ok()?..=last.parse().ok()?);
        }
        Some(cpus)
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use std::fs;

        /// The sysfs folder of a machine with this many threads per core. `values` has, for each
        /// CPU, the content of `file`.
        fn machine(threads: usize, file: &str, values: &[u64]) -> tempfile::TempDir {
            let root = tempfile::tempdir().unwrap();
            let write = |path: String, text: String| {
                let path = root.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            };
            write("system/cpu/present".into(), format!("0-{}\n", values.len() - 1));
            for (cpu, value) in values.iter().enumerate() {
                let folder = format!("system/cpu/cpu{cpu}");
                write(format!("{folder}/topology/physical_package_id"), "0\n".into());
                write(format!("{folder}/topology/core_id"), format!("{}\n", cpu / threads));
                write(format!("{folder}/{file}"), format!("{value}\n"));
            }
            root
        }

        #[test]
        fn performance_cores_are_counted_without_hyper_threads() {
            let check = |machine: &tempfile::TempDir, cores| assert_eq!(performance(machine.path()), cores);
            check(&machine(1, "cpu_capacity", &[300, 300, 300, 900, 1024]), Some(2));
            check(&machine(2, "cpu_capacity", &[1024; 8]), Some(4));
            let favored = [5_100, 5_100, 5_400, 5_400, 3_300, 3_300];
            check(&machine(2, "cpufreq/cpuinfo_max_freq", &favored), Some(2));
            check(&machine(1, "no_such_file", &[1]), None);

            let intel = machine(2, "cpufreq/cpuinfo_max_freq", &[5_000; 6]);
            fs::create_dir(intel.path().join("cpu_core")).unwrap();
            fs::write(intel.path().join("cpu_core/cpus"), "0-1,4\n").unwrap();
            check(&intel, Some(2));
        }
    }
}

#[cfg(windows)]
mod windows {
    use std::collections::HashSet;
    use windows_sys::Win32::System::SystemInformation::{
        CpuSetInformation, GetSystemCpuSetInformation, SYSTEM_CPU_SET_INFORMATION,
    };

    /// The cores of the highest efficiency class, which are the fastest.
    pub fn performance() -> Option<usize> {
        let mut size = 0;
        // SAFETY: without a buffer, only the required size is written; a null process means this
        // one.
        unsafe { GetSystemCpuSetInformation(std::ptr::null_mut(), 0, &mut size, std::ptr::null_mut(), 0) };
        // Words of eight bytes, for the alignment of the records.
        let mut buffer = vec![0_u64; (size as usize).div_ceil(8)];
        // SAFETY: the buffer has room for `size` bytes and is aligned for the records.
        let success =
            unsafe { GetSystemCpuSetInformation(buffer.as_mut_ptr().cast(), size, &mut size, std::ptr::null_mut(), 0) };
        if success == 0 {
            return None;
        }
        let (start, end) = (buffer.as_ptr().cast::<u8>(), size as usize);
        let mut cores = Vec::new();
        let mut offset = 0;
        while offset + size_of::<SYSTEM_CPU_SET_INFORMATION>() <= end {
            // SAFETY: a whole record fits between `offset` and the end of the written bytes.
            let record = unsafe { start.add(offset).cast::<SYSTEM_CPU_SET_INFORMATION>().read_unaligned() };
            if record.Size == 0 {
                break;
            }
            if record.Type == CpuSetInformation {
                // SAFETY: the record's type says that it is a CPU set.
                let set = unsafe { record.Anonymous.CpuSet };
                cores.push((set.EfficiencyClass, set.Group, set.CoreIndex));
            }
            offset += record.Size as usize;
        }
        let best = cores.iter().map(|(class, ..)| *class).max()?;
        let fast: HashSet<_> = cores.into_iter().filter(|(class, ..)| *class == best).collect();
        Some(fast.len())
    }
}
