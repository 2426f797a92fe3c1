"""What selects or owns pods: services, controllers, namespaces, disruption budgets."""
